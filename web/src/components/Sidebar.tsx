import { useEffect, useRef } from 'react'
import { flushSync } from 'react-dom'
import { usePanels } from '../panels.ts'
import { useConversations, useStatus } from '../queries.ts'
import { go, goToLine, isPlainClick, pathOfLine, useLineId } from '../route.ts'
import { ConversationItem } from './ConversationItem.tsx'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { CloseIcon, Mark, PlugIcon, PlusIcon, SearchIcon, SlidersIcon } from './icons.tsx'
import styles from './Sidebar.module.css'

const KEY = /mac|iphone|ipad/i.test(navigator.userAgent) ? '⌘' : 'Ctrl'

interface Props {
  current: string | null
  /** Shown over the chat, on narrow screens. */
  open: boolean
  /** Put away, on wide ones. */
  hidden: boolean
  onClose: () => void
  onSearch: () => void
}

/** The conversations; a sheet over the chat on narrow screens. */
export function Sidebar({ current, open, hidden, onClose, onSearch }: Props) {
  const list = useConversations()
  const status = useStatus()
  const panels = usePanels()
  const clients = useLineId() !== undefined
  const conversations = list.data?.pages.flatMap((page) => page.data) ?? []
  const closing = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (!open) return
    const opener = document.activeElement
    closing.current?.focus()
    return () => {
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [open])
  useEffect(() => {
    if (!open) return
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape') return
      event.preventDefault()
      onClose()
    }
    addEventListener('keydown', onKey, { capture: true })
    return () => removeEventListener('keydown', onKey, { capture: true })
  }, [open, onClose])

  return (
    <>
      <div className={styles.shade} data-open={open} onClick={onClose} aria-hidden="true" />
      <nav className={styles.side} data-open={open} data-hidden={hidden} aria-label="Conversations" data-testid="sidebar">
        <div className={styles.head}>
          <Mark />
          <span className={styles.name}>Lamella</span>
          <button
            ref={closing}
            type="button"
            className={`${controls.icon} ${styles.close}`}
            onClick={onClose}
            aria-label="Close list"
          >
            <CloseIcon />
          </button>
        </div>
        <button
          type="button"
          className={styles.search}
          aria-keyshortcuts="Control+K Meta+K"
          aria-haspopup="dialog"
          data-testid="search-open"
          onClick={() => {
            // First the focus goes back from this list, so that the search can give it back to there.
            flushSync(onClose)
            onSearch()
          }}
        >
          <SearchIcon />
          Search
          <kbd>{KEY} K</kbd>
        </button>
        <button
          type="button"
          className={styles.new}
          aria-keyshortcuts="Control+Shift+O Meta+Shift+O"
          title={`New conversation (${KEY}+Shift+O)`}
          data-testid="new-conversation"
          aria-current={current === null && !clients ? 'page' : undefined}
          onClick={() => {
            go(null)
            onClose()
          }}
        >
          <PlusIcon />
          New conversation
        </button>
        <a
          href={pathOfLine(null)}
          className={`${styles.new} ${styles.clients}`}
          title="What other programs send through this server"
          data-testid="clients-open"
          aria-current={clients ? 'page' : undefined}
          onClick={(event) => {
            if (!isPlainClick(event)) return
            event.preventDefault()
            goToLine(null)
            onClose()
          }}
        >
          <PlugIcon />
          Clients
        </a>
        <div className={styles.scroll}>
          {list.error && (
            <QueryError error={list.error}>
              <button type="button" className={controls.link} onClick={() => void list.refetch()}>
                Try again
              </button>
            </QueryError>
          )}
          <ul className={styles.list}>
            {conversations.map((conversation) => (
              <ConversationItem
                key={conversation.id}
                conversation={conversation}
                current={conversation.id === current}
                onChoose={onClose}
              />
            ))}
          </ul>
          {list.hasNextPage && (
            <button
              type="button"
              className={styles.more}
              onClick={() => void list.fetchNextPage()}
              disabled={list.isFetchingNextPage}
            >
              {list.isFetchingNextPage ? 'Loading…' : 'Show older conversations'}
            </button>
          )}
        </div>
        <div className={styles.foot}>
          <button
            type="button"
            className={styles.settings}
            aria-keyshortcuts="Control+,"
            title="Agents, projects and the system prompt (Ctrl+,)"
            data-testid="settings-open"
            onClick={() => {
              panels.show({ kind: 'settings', section: 'agents', id: null })
              onClose()
            }}
          >
            <SlidersIcon />
            Settings
          </button>
          {status.data && <span>Version {status.data.version}</span>}
        </div>
      </nav>
    </>
  )
}
