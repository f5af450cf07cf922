import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Gauge } from '../api.ts'
import { exact, percent, tokens } from '../format.ts'
import { usePanels } from '../panels.ts'
import { keys, useCompact, useGauge } from '../queries.ts'
import type { TurnView } from '../turn.ts'
import { useTurn } from '../turns.ts'
import styles from './ContextBar.module.css'
import controls from './controls.module.css'

export interface Filling {
  input: number
  read: number
  budget: number
  cached: number | null
  estimate: boolean
}

/** How full the model's window is, and how much of it came from the cache. Opens the drawer. */
export function ContextBar({ conversation, newest }: { conversation: string; newest: string | null }) {
  const panels = usePanels()
  const client = useQueryClient()
  const gauge = useGauge(conversation)
  const compact = useCompact(conversation)
  const entry = useTurn(newest ?? '')
  const filling = fillingOf(gauge.data ?? null, entry?.view ?? null)
  const billed = entry?.view.requests.filter((request) => request.usage).length ?? 0
  useEffect(() => {
    if (billed > 0) void client.invalidateQueries({ queryKey: keys.context(conversation) })
  }, [client, conversation, billed])
  if (!filling || filling.input === 0 || newest === null) return <div className={styles.empty} />

  const { input, read, budget, cached, estimate } = filling
  const share = (count: number) => `${Math.min(100, budget > 0 ? (100 * count) / budget : 0)}%`
  const figure = `${estimate ? '≈ ' : ''}${tokens(input)} / ${tokens(budget)}`
  const said = estimate
    ? `About ${exact(input)} of ${exact(budget)} tokens, an estimate`
    : `${exact(input)} of ${exact(budget)} tokens${cached === null ? '' : `, ${percent(cached)} from the cache`}`
  const threshold = gauge.data?.compaction_at ?? null
  const next = nextCompaction(gauge.data ?? null, input)
  const idle = whenSilent(gauge.data ?? null)
  const offered = offerOf(gauge.data ?? null)
  return (
    <div className={styles.bar} data-testid="context-bar" data-estimate={estimate}>
      <div
        className={styles.meter}
        role="meter"
        aria-label="Context window"
        aria-valuemin={0}
        aria-valuemax={budget}
        aria-valuenow={Math.min(input, budget)}
        aria-valuetext={said}
      >
        <span className={styles.read} style={{ width: share(read) }} />
        <span className={styles.rest} style={{ width: share(input - read) }} data-estimate={estimate} />
        {threshold !== null && threshold < budget && (
          <span className={styles.threshold} style={{ left: share(threshold) }} title={next} data-testid="context-threshold" />
        )}
      </div>
      <span className={styles.figure} title={said}>
        {figure}
        {estimate ? ' (estimate)' : cached === null ? '' : ` · ${percent(cached)} cached`}
        {next !== '' && <span className={styles.next} data-testid="context-next">{` · ${next}`}</span>}
      </span>
      {idle !== '' && (
        <span className={`${styles.figure} ${styles.next}`} title={gauge.data?.cache?.why} data-testid="context-idle">
          {idle}
        </span>
      )}
      {offered !== '' && (
        <button
          type="button"
          className={`${controls.link} ${styles.offer}`}
          onClick={() => compact.mutate()}
          disabled={compact.isPending}
          title="Replaces older messages in the window by a summary. Nothing is deleted, and it can be undone."
          data-testid="context-offer"
        >
          {offered}
        </button>
      )}
      <button
        type="button"
        className={styles.open}
        onClick={() => panels.show({ kind: 'context', turn: newest })}
        aria-label="Show the context of the last request"
        data-testid="context-open"
      />
    </div>
  )
}

/** How far the next compaction is, in words; one that runs is said to. Above it the last request is of before one. */
export function nextCompaction(gauge: Gauge | null, input: number): string {
  if (gauge === null) return ''
  if (gauge.compacting) return 'compacting…'
  const left = gauge.compaction_at === null ? 0 : gauge.compaction_at - input
  return left > 0 ? `${tokens(left)} to compaction` : ''
}

/** What a compaction now would save, in words; "" if none is offered. */
export function offerOf(gauge: Gauge | null): string {
  const offer = gauge?.compaction_offer
  if (!offer || gauge.compacting) return ''
  return `Compact now: saves about $${offer.saves.toFixed(2)} (${percent(offer.share)}) over ${offer.messages} messages`
}

const ACTS = { nothing: '', compact: 'then compacted', prune: 'then pruned' }

/** Until when what is cached lives, and what becomes of the conversation then; "" where nothing is cached. */
export function whenSilent(gauge: Gauge | null, now: Date = new Date()): string {
  const cache = gauge?.cache
  if (!cache?.ends_at) return ''
  if (new Date(cache.ends_at) <= now) return 'the cache has ended'
  const at = new Date(cache.ends_at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
  const then = ACTS[cache.next]
  return `cached until ${at}${then === '' ? '' : `, ${then}`}`
}

/**
 * While a turn runs, what its requests were billed; then the server's gauge, which knows what a compaction has changed
 * since. Where nothing was measured yet, what the last request was expected to be.
 */
export function fillingOf(gauge: Gauge | null, newest: TurnView | null): Filling | null {
  const billed = newest?.ended ? undefined : newest?.requests.findLast((request) => request.usage)
  if (billed?.usage) {
    const { input, cache_read: read } = billed.usage
    return { input, read, budget: billed.budget, cached: input > 0 ? read / input : null, estimate: false }
  }
  if (gauge && gauge.input > 0) {
    const { input, read, budget, cached_share: cached, estimate } = gauge
    return { input, read, budget, cached, estimate }
  }
  const sent = newest?.requests.at(-1)
  if (sent) return { input: sent.estimate, read: 0, budget: sent.budget, cached: null, estimate: true }
  return gauge && { input: gauge.input, read: 0, budget: gauge.budget, cached: null, estimate: true }
}
