import { Menu } from '@base-ui/react/menu'
import { useMutation } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { type Conversation, explain } from '../api.ts'
import { fullMoment } from '../format.ts'
import { layers } from '../layers.ts'
import { useRemove, useChange } from '../queries.ts'
import { follow, go, pathOf } from '../route.ts'
import { Confirm } from './Confirm.tsx'
import styles from './ConversationItem.module.css'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { DotsIcon, DownIcon, PencilIcon, TrashIcon } from './icons.tsx'
import menu from './Menu.module.css'

interface Props {
  conversation: Conversation
  current: boolean
  /** Whether the Tab key stops here: at one of the list, from which the arrows go on. */
  stop: boolean
  onChoose: () => void
}

export function ConversationItem({ conversation, current, stop, onChoose }: Props) {
  const [renaming, setRenaming] = useState(false)
  const [asking, setAsking] = useState(false)
  const renames = useRef(false)
  const rename = useChange()
  const remove = useRemove()
  const save = useMutation({
    mutationFn: async (format: 'md' | 'json') => (await import('../exporting.ts')).saveChat(conversation, format, fullMoment),
  })
  const title = conversation.title || 'Untitled'
  const problem = rename.error ?? remove.error ?? save.error

  const confirm = () => {
    setAsking(false)
    remove.mutate(conversation.id, { onSuccess: () => current && go(null, true) })
  }

  return (
    <li className={styles.item} data-testid="conversation-item" data-current={current}>
      {renaming ? (
        <TitleInput
          title={conversation.title}
          onDone={(text) => {
            renames.current = false
            setRenaming(false)
            if (text !== null && text !== conversation.title) rename.mutate({ id: conversation.id, title: text })
          }}
        />
      ) : (
        <>
          <a
            className={styles.link}
            href={pathOf(conversation.id)}
            onClick={follow(pathOf(conversation.id), onChoose)}
            aria-current={current ? 'page' : undefined}
            title={title}
            tabIndex={stop ? 0 : -1}
            data-chat
          >
            {conversation.running_turn && <span className={styles.running} aria-label="Answering" role="img" />}
            <span className={styles.title} dir="auto">
              {title}
            </span>
          </a>
          <Menu.Root>
            <Menu.Trigger
              className={`${controls.icon} ${styles.more}`}
              tabIndex={-1}
              aria-label={`More of ${title}`}
              data-testid="conversation-menu"
            >
              <DotsIcon />
            </Menu.Trigger>
            <Menu.Portal container={layers}>
              <Menu.Positioner className={menu.positioner} align="start" sideOffset={4}>
                {/* Renaming takes the focus itself. */}
                <Menu.Popup className={menu.popup} finalFocus={() => !renames.current}>
                  <Menu.Item
                    className={menu.item}
                    onClick={() => {
                      renames.current = true
                      setRenaming(true)
                    }}
                    data-testid="conversation-rename"
                  >
                    <PencilIcon size={14} />
                    Rename
                  </Menu.Item>
                  <Menu.Item className={menu.item} onClick={() => save.mutate('md')} data-testid="conversation-markdown">
                    <DownIcon size={14} />
                    Download as Markdown
                  </Menu.Item>
                  <Menu.Item className={menu.item} onClick={() => save.mutate('json')} data-testid="conversation-json">
                    <DownIcon size={14} />
                    Download as JSON
                  </Menu.Item>
                  <Menu.Item className={`${menu.item} ${menu.bad}`} onClick={() => setAsking(true)} data-testid="conversation-delete">
                    <TrashIcon size={14} />
                    Delete
                  </Menu.Item>
                </Menu.Popup>
              </Menu.Positioner>
            </Menu.Portal>
          </Menu.Root>
        </>
      )}
      {problem && <ErrorNote problem={explain(problem)} />}
      {asking && (
        <Confirm
          question="Delete this conversation?"
          detail={`“${title}” and its answers are removed for good.`}
          action="Delete"
          onConfirm={confirm}
          onCancel={() => setAsking(false)}
        />
      )}
    </li>
  )
}

function TitleInput({ title, onDone }: { title: string; onDone: (text: string | null) => void }) {
  const [text, setText] = useState(title)
  const done = useRef(false)
  const finish = (value: string | null) => {
    if (done.current) return
    done.current = true
    onDone(value?.trim() ? value.trim() : null)
  }
  return (
    <input
      className={styles.input}
      dir="auto"
      aria-label="Title of the conversation"
      value={text}
      maxLength={200}
      autoFocus
      onFocus={(event) => event.target.select()}
      onChange={(event) => setText(event.target.value)}
      onBlur={() => finish(text)}
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing) return
        if (event.key === 'Enter') finish(text)
        if (event.key === 'Escape') {
          event.preventDefault()
          event.stopPropagation()
          finish(null)
        }
      }}
    />
  )
}
