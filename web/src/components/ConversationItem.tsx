import { useRef, useState } from 'react'
import { type Conversation, explain } from '../api.ts'
import { useRemove, useChange } from '../queries.ts'
import { follow, go, pathOf } from '../route.ts'
import { Confirm } from './Confirm.tsx'
import styles from './ConversationItem.module.css'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { PencilIcon, TrashIcon } from './icons.tsx'

interface Props {
  conversation: Conversation
  current: boolean
  onChoose: () => void
}

export function ConversationItem({ conversation, current, onChoose }: Props) {
  const [renaming, setRenaming] = useState(false)
  const [asking, setAsking] = useState(false)
  const rename = useChange()
  const remove = useRemove()
  const title = conversation.title || 'Untitled'
  const problem = rename.error ?? remove.error

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
          >
            {conversation.running_turn && <span className={styles.running} aria-label="Answering" role="img" />}
            <span className={styles.title} dir="auto">
              {title}
            </span>
          </a>
          <span className={styles.tools}>
            <button
              type="button"
              className={controls.icon}
              onClick={() => setRenaming(true)}
              aria-label={`Rename ${title}`}
              data-testid="conversation-rename"
            >
              <PencilIcon size={14} />
            </button>
            <button
              type="button"
              className={controls.icon}
              onClick={() => setAsking(true)}
              aria-label={`Delete ${title}`}
              data-testid="conversation-delete"
            >
              <TrashIcon size={14} />
            </button>
          </span>
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
