import { CopyButton } from './CopyButton.tsx'
import styles from './Entrance.module.css'
import form from './form.module.css'

/** A new key, which is never shown again. */
export function Secret({ secret }: { secret: string }) {
  return (
    <div className={form.field} role="status" data-testid="secret">
      <p className={form.quiet}>This key is shown only once. Store it in a safe place.</p>
      <code className={styles.secret}>{secret}</code>
      <div className={form.actions}>
        <CopyButton text={secret} label="Copy the key" />
      </div>
    </div>
  )
}
