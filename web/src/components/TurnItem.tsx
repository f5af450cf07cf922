import type { ShownTurn } from '../turn.ts'
import { memo } from 'react'
import { useTurn } from '../turns.ts'
import { Answer } from './Answer.tsx'
import { DocumentChip } from './FileChip.tsx'
import { Question } from './Question.tsx'
import styles from './TurnItem.module.css'

/** A question and what came of it. */
export const TurnItem = memo(function TurnItem({ turn, newest }: { turn: ShownTurn; newest: boolean }) {
  const entry = useTurn(turn.id)
  const { documents } = turn
  return (
    <article className={styles.turn} data-testid="turn" data-turn={turn.id}>
      <section className={styles.user} aria-label="You" tabIndex={-1} data-testid="message-user">
        {documents.length > 0 && (
          <ul className={styles.files}>
            {documents.map((document, index) => (
              <DocumentChip key={document.file_id ?? index} document={document} />
            ))}
          </ul>
        )}
        <Question turn={turn} />
      </section>
      <Answer turn={turn} entry={entry} newest={newest} />
    </article>
  )
})
