import { useLayoutEffect, useRef } from 'react'
import styles from './Confirm.module.css'
import controls from './controls.module.css'

interface Props {
  question: string
  detail: string
  action: string
  onConfirm: () => void
  onCancel: () => void
}

/** Asks before something that cannot be undone. The browser's own dialog keeps the focus inside. */
export function Confirm({ question, detail, action, onConfirm, onCancel }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  // Closed while it still is on the page: then the browser gives the focus back.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      className={styles.dialog}
      aria-labelledby="confirm-question"
      data-testid="confirm"
      onCancel={(event) => {
        event.preventDefault()
        onCancel()
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <h2 id="confirm-question" dir="auto">{question}</h2>
      <p>{detail}</p>
      <div className={styles.actions}>
        <button type="button" className={controls.plain} onClick={onCancel} autoFocus>
          Cancel
        </button>
        <button type="button" className={controls.danger} onClick={onConfirm} data-testid="confirm-action">
          {action}
        </button>
      </div>
    </dialog>
  )
}
