import { ChevronIcon } from './icons.tsx'
import styles from './Fold.module.css'

/** What the model thought, folded away. */
export function Reasoning({ text, growing }: { text: string; growing: boolean }) {
  return (
    <details className={styles.fold} data-testid="reasoning">
      <summary>
        <ChevronIcon size={14} />
        {growing ? 'Thinking…' : 'Thoughts'}
      </summary>
      <div className={styles.prose} dir="auto">
        {text.trim()}
      </div>
    </details>
  )
}
