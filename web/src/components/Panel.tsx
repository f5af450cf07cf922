import { type ReactNode, useEffect, useId, useRef } from 'react'
import { isKept } from '../overlays.ts'
import controls from './controls.module.css'
import { CloseIcon } from './icons.tsx'
import styles from './Panel.module.css'

interface Props {
  title: ReactNode
  detail?: ReactNode
  testId: string
  onClose: () => void
  children: ReactNode
}

/** A panel beside the chat, over it on narrow screens. Escape closes it. */
export function Panel({ title, detail, testId, onClose, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null)
  const id = useId()
  useEffect(() => {
    const panel = heading.current?.closest('[data-side-panel]')
    if (!panel?.contains(document.activeElement)) heading.current?.focus({ preventScroll: true })
  }, [])
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      // What is open over the panel is closed first.
      if (event.key !== 'Escape' || event.defaultPrevented || isKept(event)) return
      event.preventDefault()
      onClose()
    }
    // Before the page's own keys: Escape closes the panel first and stops an answer only without one.
    addEventListener('keydown', onKey, { capture: true })
    return () => removeEventListener('keydown', onKey, { capture: true })
  }, [onClose])

  return (
    <aside className={styles.panel} aria-labelledby={id} data-side-panel data-testid={testId}>
      <header className={styles.head}>
        <div className={styles.titles}>
          <h2 id={id} ref={heading} tabIndex={-1} dir="auto">
            {title}
          </h2>
          {detail && <p>{detail}</p>}
        </div>
        <button type="button" className={controls.icon} onClick={onClose} aria-label="Close panel">
          <CloseIcon />
        </button>
      </header>
      {children}
    </aside>
  )
}
