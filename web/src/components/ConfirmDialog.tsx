import { AlertDialog } from '@base-ui/react/alert-dialog'
import { useRef, useState } from 'react'
import styles from './Confirm.module.css'
import controls from './controls.module.css'

export interface Asked {
  question: string
  detail: string
  action: string
  onConfirm: () => void
  onCancel: () => void
}

/** Asks before something that cannot be undone. The focus goes back to what opened it, then the answer is acted on. */
export default function ConfirmDialog({ question, detail, action, onConfirm, onCancel }: Asked) {
  const [open, setOpen] = useState(true)
  const confirmed = useRef(false)
  const act = () => (confirmed.current ? onConfirm() : onCancel())
  return (
    <AlertDialog.Root open={open} onOpenChange={setOpen} onOpenChangeComplete={(still) => !still && act()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={styles.backdrop} />
        <AlertDialog.Popup className={styles.dialog} data-testid="confirm">
          <AlertDialog.Title dir="auto">{question}</AlertDialog.Title>
          <AlertDialog.Description>{detail}</AlertDialog.Description>
          <div className={styles.actions}>
            <AlertDialog.Close className={controls.plain}>Cancel</AlertDialog.Close>
            <AlertDialog.Close
              className={controls.danger}
              onClick={() => {
                confirmed.current = true
              }}
              data-testid="confirm-action"
            >
              {action}
            </AlertDialog.Close>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
