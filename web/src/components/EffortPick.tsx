import { useState } from 'react'
import type { CacheLost, Conversation, Effort } from '../api.ts'
import { efforts as levels } from '../choice.ts'
import { dollars, tokens } from '../format.ts'
import { useEfforts, useGauge } from '../queries.ts'
import styles from './ChoiceLine.module.css'
import controls from './controls.module.css'
import { Pick } from './Pick.tsx'

interface Props {
  conversation: Conversation | null
  value: string | null
  onChange: (value: string | null) => void
}

/** How much the model thinks. A change that loses cached tokens says so, and is made when it is confirmed. */
export function EffortPick({ conversation, value, onChange }: Props) {
  const gauge = useGauge(conversation?.id ?? null)
  const known = useEfforts(conversation?.id ?? null, gauge.data?.request_id ?? null).data ?? []
  const [asked, setAsked] = useState<Effort | null>(null)
  const current = known.find((one) => one.current)
  const names = [...new Set([...(known.length > 0 ? known.map((one) => one.name) : levels), ...(value ? [value] : [])])]
  const choose = (name: string | null) => {
    const wanted = known.find((one) => one.name === name)
    if (wanted?.cache_lost) setAsked(wanted)
    else {
      setAsked(null)
      onChange(name)
    }
  }
  return (
    <>
      <Pick
        label="Thinking"
        name="effort"
        value={asked ? asked.name : value}
        none={current && value === null ? `as usual (${current.name})` : 'as usual'}
        detail={current?.note ?? undefined}
        options={names.map((id) => ({ id, name: id }))}
        onChange={choose}
      />
      {asked?.cache_lost && (
        <span className={styles.warning} role="alert" data-testid="effort-warning">
          {lossOf(asked.cache_lost)}
          <button
            type="button"
            className={controls.link}
            onClick={() => {
              setAsked(null)
              onChange(asked.name)
            }}
            data-testid="effort-change"
          >
            Change to {asked.name}
          </button>
          <button type="button" className={controls.link} onClick={() => setAsked(null)} data-testid="effort-keep">
            Keep
          </button>
        </span>
      )}
    </>
  )
}

/** What a change keeps the next request from reading, in words. */
export function lossOf({ level, tokens: count, cost }: CacheLost): string {
  const from = level === 'tools' ? 'the whole window' : level === 'system' ? 'the system prompt on' : 'the messages'
  return `About ${tokens(count)} cached tokens (${from}) would be written again, about ${dollars(cost)} more.`
}
