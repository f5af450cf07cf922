import { type KeyboardEvent as Key, useEffect, useRef } from 'react'
import { flushSync } from 'react-dom'
import { usePathname } from 'wouter/use-browser-location'
import { byDate } from '../format.ts'
import { useConversations, useStatus } from '../queries.ts'
import { follow, go } from '../route.ts'
import { ConversationItem } from './ConversationItem.tsx'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { BookIcon, CloseIcon, FolderIcon, Mark, PlugIcon, PlusIcon, RobotIcon, SearchIcon, SlidersIcon } from './icons.tsx'
import { MoreButton } from './MoreButton.tsx'
import styles from './Sidebar.module.css'

const KEY = /mac|iphone|ipad/i.test(navigator.userAgent) ? '⌘' : 'Ctrl'

const pages = [
  { path: '/projects', label: 'Projects', Icon: FolderIcon, title: 'Files and instructions that several chats share' },
  { path: '/knowledge', label: 'Knowledge', Icon: BookIcon, title: 'Documents that chats and agents search' },
  { path: '/agents', label: 'Agents', Icon: RobotIcon, title: 'Prompts with their tools, model and knowledge' },
  { path: '/clients', label: 'Clients', Icon: PlugIcon, title: 'What other programs send through this server' },
]

const isIn = (here: string, path: string) => here === path || here.startsWith(`${path}/`)

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
  const here = usePathname()
  const conversations = list.data?.pages.flatMap((page) => page.data) ?? []
  // One stop of the Tab key for the whole list: the open chat, or the newest.
  const stop = conversations.some((one) => one.id === current) ? current : conversations[0]?.id
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
      <nav className={styles.side} data-open={open} data-hidden={hidden} aria-label="Pages and chats" data-testid="sidebar">
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
          title={`New chat (${KEY}+Shift+O)`}
          data-testid="new-conversation"
          aria-current={here === '/' ? 'page' : undefined}
          onClick={() => {
            go(null)
            onClose()
          }}
        >
          <PlusIcon />
          New chat
        </button>
        <ul className={styles.pages}>
          {pages.map(({ path, label, Icon, title }) => (
            <li key={path}>
              <a
                href={path}
                className={styles.page}
                title={title}
                aria-current={isIn(here, path) ? 'page' : undefined}
                onClick={follow(path, onClose)}
                data-testid={`${path.slice(1)}-open`}
              >
                <Icon />
                {label}
              </a>
            </li>
          ))}
        </ul>
        <div className={styles.scroll} onKeyDownCapture={onListKey}>
          {list.error && (
            <QueryError error={list.error}>
              <button type="button" className={controls.link} onClick={() => void list.refetch()}>
                Try again
              </button>
            </QueryError>
          )}
          {byDate(conversations, new Date()).map(({ name, those }) => (
            <section key={name} aria-label={name}>
              <h2 className={styles.date}>{name}</h2>
              <ul className={styles.list}>
                {those.map((conversation) => (
                  <ConversationItem
                    key={conversation.id}
                    conversation={conversation}
                    current={conversation.id === current}
                    stop={conversation.id === stop}
                    onChoose={onClose}
                  />
                ))}
              </ul>
            </section>
          ))}
          <MoreButton list={list} className={styles.more}>
            Show older chats
          </MoreButton>
        </div>
        <div className={styles.foot}>
          <a
            href="/settings"
            className={styles.settings}
            aria-keyshortcuts="Control+,"
            aria-current={isIn(here, '/settings') ? 'page' : undefined}
            title={`You and your keys (${KEY}+,)`}
            onClick={follow('/settings', onClose)}
            data-testid="settings-open"
          >
            <SlidersIcon />
            Settings
          </a>
          <a
            href="/admin"
            className={styles.settings}
            aria-current={isIn(here, '/admin') ? 'page' : undefined}
            onClick={follow('/admin', onClose)}
            data-testid="admin-open"
          >
            Admin
          </a>
          {status.data && <span>Version {status.data.version}</span>}
        </div>
      </nav>
    </>
  )
}

/** Up and Down go from chat to chat, Right to the menu of one and Left back. */
function onListKey(event: Key<HTMLElement>): void {
  const target = event.target as HTMLElement
  const item = target.closest('li')
  if (!item || !target.closest('[data-chat], [aria-haspopup=menu]')) return
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-chat]')]
  const at = links.findIndex((one) => item.contains(one))
  const next = {
    ArrowDown: links[at + 1],
    ArrowUp: links[at - 1],
    Home: links[0],
    End: links.at(-1),
    ArrowRight: item.querySelector<HTMLElement>('[aria-haspopup=menu]'),
    ArrowLeft: links[at],
  }[event.key]
  if (!next) return
  event.preventDefault()
  // The menu's own button would open on Down.
  event.stopPropagation()
  next.focus()
}
