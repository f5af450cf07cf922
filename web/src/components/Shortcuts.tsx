import { Dialog } from '@base-ui/react/dialog'
import { usePreferences } from '../preferences.ts'
import styles from './Confirm.module.css'
import controls from './controls.module.css'
import list from './Shortcuts.module.css'

const KEY = /mac|iphone|ipad/i.test(navigator.userAgent) ? '⌘' : 'Ctrl'

/** All keys of the page. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const { send } = usePreferences()
  const rows = [
    [`${KEY} K`, 'Search chats, open pages'],
    [`${KEY} Shift O`, 'New chat'],
    [`${KEY} ,`, 'Settings'],
    [send === 'enter' ? 'Enter' : `${KEY} Enter`, 'Send the message'],
    [send === 'enter' ? 'Shift Enter' : 'Enter', 'New line'],
    ['↑', 'Edit the last message, in an empty composer'],
    ['Escape', 'Close what is open, or stop the answer'],
    ['↑ ↓ →', 'In the list of chats: go through it, and open the menu of one'],
    ['?', 'This list'],
  ]
  return (
    <Dialog.Root defaultOpen onOpenChangeComplete={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={styles.backdrop} />
        <Dialog.Popup className={`${styles.dialog} ${list.dialog}`} data-testid="shortcuts">
          <Dialog.Title>Keyboard shortcuts</Dialog.Title>
          <dl className={list.keys}>
            {rows.map(([keys, does]) => (
              <div key={does}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
          <div className={styles.actions}>
            <Dialog.Close className={controls.plain}>Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
