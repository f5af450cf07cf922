import { createContext, type ReactNode, useContext, useEffect } from 'react'
import { follow } from '../route.ts'
import chat from './Chat.module.css'
import header from './ChatHeader.module.css'
import controls from './controls.module.css'
import { BackIcon, ListIcon } from './icons.tsx'
import styles from './Page.module.css'

/** Shows or hides the list of chats. */
export const ListContext = createContext<() => void>(() => undefined)

export function ListButton() {
  const toggle = useContext(ListContext)
  return (
    <button type="button" className={controls.icon} onClick={toggle} aria-label="Chats" data-testid="toggle-list">
      <ListIcon size={18} />
    </button>
  )
}

interface Props {
  title: string
  testId: string
  /** Where the arrow before the title leads to. */
  back?: { path: string; label: string; testId?: string } | undefined
  /** Buttons after the title. */
  actions?: ReactNode
  children: ReactNode
}

/** A page of its own: its title, and its content in one scrolling column. */
export function Page({ title, testId, back, actions, children }: Props) {
  useEffect(() => {
    document.title = title ? `${title} · Lamella` : 'Lamella'
  }, [title])
  return (
    <main className={chat.chat} id="main" tabIndex={-1} data-testid={testId}>
      <header className={header.head}>
        <ListButton />
        {back && (
          <a
            href={back.path}
            className={controls.icon}
            aria-label={back.label}
            title={back.label}
            data-testid={back.testId}
            onClick={follow(back.path)}
          >
            <BackIcon />
          </a>
        )}
        <h1 className={header.title} dir="auto">
          {title}
        </h1>
        {actions}
      </header>
      <div className={styles.scroll} data-scroll>
        <div className={styles.page}>{children}</div>
      </div>
    </main>
  )
}
