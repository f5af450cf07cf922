import type { Difference } from '../api.ts'
import { changes, type Change } from '../lines.ts'
import styles from './FirstDifference.module.css'

/** The first difference between a request and the one before: the text around it in both, with the change marked. */
export function FirstDifference({ difference }: { difference: Difference }) {
  const { before, after } = changes(difference.before, difference.after)
  if (difference.before === '' && difference.after === '') return null
  return (
    <dl className={styles.difference} aria-label="The first difference to the request before" data-testid="difference">
      <Text name="Before" text={difference.before} change={before} />
      <Text name="Now" text={difference.after} change={after} />
    </dl>
  )
}

function Text({ name, text, change }: { name: string; text: string; change: Change }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {text === '' ? (
          'nothing at this place'
        ) : (
          <code>
            …{change.head}
            <mark>{change.changed}</mark>
            {change.tail}…
          </code>
        )}
      </dd>
    </div>
  )
}
