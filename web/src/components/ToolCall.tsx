import { exact } from '../format.ts'
import type { ToolBlock } from '../turn.ts'
import styles from './Fold.module.css'
import { ChevronIcon } from './icons.tsx'

/** Characters of a result that are shown. */
const SHOWN = 8_000

/** Any tool: its name, what it was asked, what it gave back. */
export function ToolCall({ block, ended }: { block: ToolBlock; ended: boolean }) {
  const { result } = block
  return (
    <details className={styles.fold} data-testid="tool-call">
      <summary>
        <ChevronIcon size={14} />
        <span className={styles.name}>{block.name}</span>
        <span className={styles.gist}>{gist(block.args)}</span>
        {result?.isError ? (
          <span className={styles.bad}>failed</span>
        ) : (
          <span className={styles.state}>{result ? '' : ended ? 'no result' : 'running…'}</span>
        )}
      </summary>
      {block.args && (
        <div className={styles.part}>
          <h3>Arguments</h3>
          <pre tabIndex={0}>{pretty(block.args)}</pre>
        </div>
      )}
      {result && (
        <div className={styles.part}>
          <h3>{result.isError ? 'Error' : 'Result'}</h3>
          <pre tabIndex={0}>{result.content.slice(0, SHOWN)}</pre>
          {result.content.length > SHOWN && (
            <p className={styles.state}>Shortened; the model has all {exact(result.content.length)} characters.</p>
          )}
        </div>
      )}
    </details>
  )
}

function parsed(args: string): unknown {
  try {
    return JSON.parse(args)
  } catch {
    return undefined // still on its way, or not JSON
  }
}

function pretty(args: string): string {
  const value = parsed(args)
  return value === undefined ? args : JSON.stringify(value, null, 2)
}

/** The values of the arguments in one line. */
function gist(args: string): string {
  const value = parsed(args)
  if (typeof value !== 'object' || value === null) return ''
  return Object.values(value)
    .map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
    .join(', ')
    .slice(0, 200)
}
