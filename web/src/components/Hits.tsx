import type { Search, SearchHit } from '../api.ts'
import { fullMoment, moment } from '../format.ts'
import styles from './Hits.module.css'
import { Marked } from './Marked.tsx'

const SPEAKERS = { user: 'You', assistant: 'Answer', tool: 'Tool' }

/** A passage that was found: where it was said, by whom and when, and the words that fit. */
export function HitText({ hit, where }: { hit: SearchHit; where: string }) {
  return (
    <>
      <span className={styles.head}>
        <strong dir="auto">{where}</strong>
        <span>
          {hit.name ?? SPEAKERS[hit.role]}
          {' · '}
          <time dateTime={hit.at} title={fullMoment(hit.at)}>
            {moment(hit.at)}
          </time>
        </span>
      </span>
      <span className={styles.passage} dir="auto">
        <Marked text={hit.snippet.text} marks={hit.snippet.marks} />
      </span>
    </>
  )
}

export const keyOf = (hit: SearchHit) => `${hit.message_id}${hit.call_id ?? ''}${hit.snippet.start}`

/** What became of a search, in words: for those who see an empty list, and those who hear. */
export function saidOf({ data, lexical_only_reason: without }: Search): string {
  const count = data.length === 0 ? 'Nothing was found.' : data.length === 1 ? '1 passage.' : `${data.length} passages.`
  return without === null ? count : `${count} Searched by words alone. ${without}`
}
