import { memo } from 'react'
import type { Turn } from '../api.ts'
import { fullMoment, moment } from '../format.ts'
import { useTurn } from '../turns.ts'
import { Answer } from './Answer.tsx'
import { DocumentChip } from './FileChip.tsx'
import styles from './TurnItem.module.css'

/** A question and what came of it. */
export const TurnItem = memo(function TurnItem({ turn }: { turn: Turn }) {
  const entry = useTurn(turn.id)
  const { documents } = turn
  return (
    <article className={styles.turn} data-testid="turn" data-turn={turn.id}>
      <section className={styles.user} aria-label="You" data-testid="message-user">
        {documents.length > 0 && (
          <ul className={styles.files}>
            {documents.map((document, index) => (
              <DocumentChip key={document.file_id ?? index} document={document} />
            ))}
          </ul>
        )}
        <div className={styles.text}>{turn.text}</div>
        <time className={styles.time} dateTime={turn.sent_at} title={fullMoment(turn.sent_at)}>
          {moment(turn.sent_at)}
        </time>
      </section>
      <Answer turn={turn} entry={entry} />
    </article>
  )
})
