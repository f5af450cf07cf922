import { useEffect } from 'react'
import { MOST_MODELS } from '../choice.ts'
import { compareWith, useDraft } from '../drafts.ts'
import { useModels } from '../queries.ts'
import styles from './ComparePick.module.css'
import { Pick } from './Pick.tsx'

/** Models that answer beside the conversation's. Nothing where the server has only one. */
export function ComparePick({ conversation, model }: { conversation: string | null; model: string | null }) {
  const { others } = useDraft(conversation)
  const { data } = useModels()
  const models = data ?? []
  useEffect(() => {
    // One that the server has no more could not be chosen away, and would refuse every message.
    const there = others.filter((id) => data === undefined || data.some((one) => one.id === id))
    if (there.length < others.length) compareWith(conversation, there)
  }, [conversation, data, others])
  const left = models.filter((one) => one.id !== model)
  if (model === null || left.length === 0) return null
  const chosen = others.filter((id) => id !== model)
  const places = Math.min(chosen.length + 1, MOST_MODELS - 1, left.length)
  const set = (place: number, id: string | null) => {
    const next = chosen.filter((_, index) => index !== place)
    compareWith(conversation, id === null ? next : next.toSpliced(place, 0, id))
  }
  return (
    <div className={styles.line} role="group" aria-label="Models that answer side by side" data-testid="compare">
      {Array.from({ length: places }, (_, place) => (
        <Pick
          key={place}
          label={place === 0 ? 'Compare with' : 'and'}
          name={`compare-${place + 1}`}
          none={place === 0 ? 'no other model' : 'no third'}
          value={chosen[place] ?? null}
          options={left
            .filter((one) => one.id === chosen[place] || !chosen.includes(one.id))
            .map(({ id }) => ({ id, name: id }))}
          onChange={(id) => set(place, id)}
        />
      ))}
      {chosen.length > 0 && (
        <p className={styles.note} data-testid="compare-note">
          A tool that changes something outside runs for {model} only, unless it asks you first.
        </p>
      )}
    </div>
  )
}
