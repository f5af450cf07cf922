import { useState } from 'react'
import { api, type CacheLoss, type Conversation, type Effort } from '../api.ts'
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
  const choose = async (name: string | null) => {
    // What a change costs is another with every request: it is asked for when it is needed.
    const wanted = name === null ? undefined : (await effortsNow(conversation)).find((one) => one.name === name)
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
        onChange={(name) => void choose(name)}
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

/** The efforts as they are now; where the server can't be asked there are none, and the change itself says why. */
function effortsNow(conversation: Conversation | null): Promise<Effort[]> {
  return conversation === null ? Promise.resolve([]) : api.efforts(conversation.id).catch(() => [])
}

/** What a change keeps the next request from reading, in words. */
export function lossOf({ level, tokens: count, cost }: CacheLoss): string {
  const from = level === 'tools' ? 'the whole window' : level === 'system' ? 'the system prompt on' : 'the messages'
  return `About ${tokens(count)} cached tokens (${from}) would be written again, about ${dollars(cost)} more.`
}
