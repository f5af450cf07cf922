import type { RequestMap } from '../api.ts'
import { about, dollars, exact, percent } from '../format.ts'
import styles from './RequestFigures.module.css'

/** What was expected of a request and what was billed, side by side; of one that was not sent the first alone. */
export function RequestFigures({ map }: { map: RequestMap }) {
  const { usage, predicted } = map
  const sent = map.id !== null
  const guessed = usage?.input_estimated
  const fresh = Math.max(0, map.estimate - predicted.read - predicted.written)
  const rows = [
    { name: 'Input', expected: map.estimate, billed: usage?.input, estimated: guessed },
    { name: 'Read from the cache', expected: predicted.read, billed: usage?.cache_read, estimated: guessed },
    { name: 'Written to the cache', expected: predicted.written, billed: usage?.cache_write, estimated: guessed },
    { name: 'Fresh', expected: fresh, billed: usage?.fresh, estimated: guessed },
    ...(sent ? [{ name: 'Output', expected: null, billed: usage?.output, estimated: usage?.estimated }] : []),
  ]
  return (
    <div className={styles.figures}>
      <table data-testid="request-figures">
        <caption className="visually-hidden">Tokens: predicted and billed</caption>
        <thead>
          <tr>
            <th scope="col">Tokens</th>
            <th scope="col">Predicted</th>
            {sent && <th scope="col">Billed</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              <td>{row.expected === null ? '' : `≈ ${exact(row.expected)}`}</td>
              {sent && <td>{row.billed === undefined ? 'not yet' : about(exact(row.billed), row.estimated)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      <dl>
        {sent && (
          <>
            <div>
              <dt>Cost</dt>
              <dd>{map.cost === null ? 'not yet' : about(dollars(map.cost), usage?.estimated)}</dd>
            </div>
            <div>
              <dt>Cached</dt>
              <dd>{usage && usage.input > 0 ? percent(usage.cache_read / usage.input) : 'not yet'}</dd>
            </div>
          </>
        )}
        <div>
          <dt>Budget</dt>
          <dd>{exact(map.budget)}</dd>
        </div>
      </dl>
    </div>
  )
}
