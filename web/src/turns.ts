/** Follows turns: starts them, replays them, comes back after a broken connection. One entry per turn, for all views. */

import { useSyncExternalStore } from 'react'
import { api, ApiError, explain, unreachable } from './api.ts'
import type { Packet, TurnStarted } from './objects.ts'
import { readEvents } from './sse.ts'
import { emptyTurn, reduce, type Outcome, type TurnView } from './turn.ts'

export type Link = 'waiting' | 'open' | 'reconnecting' | 'closed' | 'lost'

export interface Entry {
  view: TurnView
  link: Link
  problem: { message: string; hint: string | null } | null
}

/** What the store needs from the world; tests give their own. */
export interface Wire {
  events: (turn: string, after: number, signal?: AbortSignal) => Promise<Response>
  record: (turn: string) => Promise<{ status: Outcome }>
  pause: (attempt: number) => Promise<void>
}

/** What is known first of something that was sent. */
export type Taken = Extract<Packet, { type: 'turn.started' | 'turn.queued' | 'command' }>

const REPLAYS_AT_ONCE = 3
const SHOW_EVERY_MS = 32
const SILENCE_MS = 45_000

export class Turns {
  readonly #wire: Wire
  readonly #entries = new Map<string, Entry>()
  readonly #fresh = new Map<string, Packet[]>()
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #waiting: { turn: string; go: () => void }[] = []
  #wanted: string[] = []
  /** The turns that run, each with its conversation once that is known. */
  readonly #live = new Map<string, string | null>()
  readonly #watchers = new Set<(turn: string, conversation: string | null) => void>()
  #replaying = 0

  constructor(wire: Wire) {
    this.#wire = wire
  }

  get(turn: string): Entry | undefined {
    return this.#entries.get(turn)
  }

  subscribe(turn: string, listener: () => void): () => void {
    const set = this.#listeners.get(turn) ?? new Set()
    this.#listeners.set(turn, set)
    set.add(listener)
    return () => set.delete(listener)
  }

  /** Hear of every turn that ends while this page is open. The conversation is null where no packet has named it. */
  watch(watcher: (turn: string, conversation: string | null) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  /** Show a turn that is stored. `running` is what the list said; the packets know better. */
  async open(turn: string, running: boolean): Promise<void> {
    const known = this.#entries.get(turn)
    if (known && known.link !== 'lost') return
    this.#change(turn, { view: known?.view ?? emptyTurn, link: 'waiting', problem: null })
    if (running) {
      this.#live.set(turn, null)
      return this.#follow(turn, null)
    }
    await this.#slot(turn)
    try {
      await this.#follow(turn, null)
    } finally {
      this.#replaying -= 1
      const next = this.#waiting.find((one) => this.#wanted.includes(one.turn)) ?? this.#waiting[0]
      if (next) this.#waiting.splice(this.#waiting.indexOf(next), 1)
      next?.go()
    }
  }

  /** Replay these before the others that wait: the reader looks at them. */
  prefer(turns: string[]): void {
    this.#wanted = turns
  }

  /** Show a turn from the answer that began it. Resolves with its first packet, goes on in the background.
   *  A command has no turn: its answer is the only packet. What has to wait resolves with `turn.queued`; `later` hears
   *  what it comes to. */
  async adopt(answer: Response, later: () => void = () => undefined): Promise<Taken> {
    const events = readWatched(answer)
    for (;;) {
      const { done, value } = await events.next()
      if (done) throw new ApiError(0, unreachable)
      const packet = value
      if (packet.type === 'command') return packet
      if (packet.type === 'turn.queued') {
        void this.#await(events, later)
        return packet
      }
      if (packet.type === 'error') throw new ApiError(200, packet.error)
      if (packet.type !== 'turn.started') continue
      this.#begin(packet, events)
      return packet
    }
  }

  #begin(started: TurnStarted, events: AsyncGenerator<Packet>): void {
    this.#change(started.turn_id, { view: reduce(emptyTurn, started), link: 'open', problem: null })
    this.#live.set(started.turn_id, started.conversation_id)
    void this.#follow(started.turn_id, events)
  }

  /** What waited begins, is answered, or is taken out. Messages that are answered together have one turn. */
  async #await(events: AsyncGenerator<Packet>, later: () => void): Promise<void> {
    try {
      const { done, value } = await events.next()
      if (!done && value.type === 'turn.started' && !this.#entries.has(value.turn_id)) this.#begin(value, events)
      else void events.return(undefined)
    } catch {
      // The connection broke: the queue is looked at again, and the turn is found in the list.
    }
    later()
  }

  async #follow(turn: string, first: AsyncGenerator<Packet> | null): Promise<void> {
    let events = first
    for (let attempt = 0; ; ) {
      const before = this.#last(turn)
      try {
        events ??= readWatched(await this.#wire.events(turn, before))
        this.#link(turn, 'open')
        for await (const packet of events) this.#take(turn, packet)
        if (await this.#settled(turn, before)) return
      } catch (error) {
        if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
          this.#change(turn, { ...this.#entry(turn), link: 'lost', problem: explain(error) })
          return
        }
      }
      events = null
      attempt = this.#last(turn) > before ? 1 : attempt + 1
      this.#link(turn, 'reconnecting')
      await this.#wire.pause(attempt)
    }
  }

  /** After a stream that closed: whether there is nothing more to come. One that brought something may bring more. */
  async #settled(turn: string, before: number): Promise<boolean> {
    this.#show(turn)
    const { view } = this.#entry(turn)
    if (!view.ended) {
      if (view.last > before) return false
      const { status } = await this.#wire.record(turn)
      if (status === 'running') return false
      this.#change(turn, { ...this.#entry(turn), view: { ...view, ended: true, outcome: status } })
      this.#end(turn)
    }
    this.#link(turn, 'closed')
    return true
  }

  async #slot(turn: string): Promise<void> {
    while (this.#replaying >= REPLAYS_AT_ONCE) await new Promise<void>((go) => this.#waiting.push({ turn, go }))
    this.#replaying += 1
  }

  #take(turn: string, packet: Packet): void {
    const fresh = this.#fresh.get(turn)
    if (fresh) fresh.push(packet)
    else {
      this.#fresh.set(turn, [packet])
      setTimeout(() => this.#show(turn), SHOW_EVERY_MS)
    }
    if (packet.type === 'turn.started' && this.#live.has(turn)) this.#live.set(turn, packet.conversation_id)
    if (packet.type === 'turn.finished') this.#end(turn)
  }

  /** Fold what arrived since the last time into the view: many packets, one rendering. */
  #show(turn: string): void {
    const fresh = this.#fresh.get(turn)
    if (!fresh) return
    this.#fresh.delete(turn)
    const entry = this.#entry(turn)
    const view = fresh.reduce(reduce, entry.view)
    this.#change(turn, { ...entry, view, link: view.ended ? 'closed' : entry.link })
  }

  #last(turn: string): number {
    this.#show(turn)
    return this.#entry(turn).view.last
  }

  #end(turn: string): void {
    const conversation = this.#live.get(turn)
    if (conversation === undefined) return
    this.#live.delete(turn)
    for (const watcher of this.#watchers) watcher(turn, conversation)
  }

  #entry(turn: string): Entry {
    return this.#entries.get(turn) ?? { view: emptyTurn, link: 'waiting', problem: null }
  }

  #link(turn: string, link: Link): void {
    const entry = this.#entry(turn)
    if (entry.link !== link) this.#change(turn, { ...entry, link })
  }

  #change(turn: string, entry: Entry): void {
    this.#entries.set(turn, entry)
    for (const listener of this.#listeners.get(turn) ?? []) listener()
  }
}

/** The packets of an answer. A connection that is silent for three comments is broken, whatever the socket says. */
async function* readWatched(answer: Response): AsyncGenerator<Packet> {
  if (!answer.body) return
  let timer: ReturnType<typeof setTimeout> | undefined
  let giveUp: (reason: Error) => void = () => undefined
  const silent = new Promise<never>((_, reject) => {
    giveUp = reject
  })
  silent.catch(() => undefined)
  const alive = () => {
    clearTimeout(timer)
    timer = setTimeout(() => giveUp(new Error('silent')), SILENCE_MS)
  }
  alive()
  const events = readEvents(answer.body, alive)
  try {
    for (;;) {
      const step = await Promise.race([events.next(), silent])
      if (step.done) return
      const packet = JSON.parse(step.value.data) as Packet
      yield packet
      if (packet.type === 'turn.finished') return
    }
  } finally {
    clearTimeout(timer)
    // Not awaited: a reader that waits for a dead socket would never come back.
    void events.return(undefined)
    void answer.body.cancel().catch(() => undefined)
  }
}

/** Half a second, one, two, then every four; at once when the network comes back. */
export function pause(attempt: number): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer)
      removeEventListener('online', go)
      resolve()
    }
    const timer = setTimeout(go, Math.min(4000, 250 * 2 ** attempt) * (0.8 + Math.random() * 0.4))
    addEventListener('online', go)
  })
}

export const turns = new Turns({ events: api.events, record: api.turn, pause })

export function useTurn(turn: string): Entry | undefined {
  return useSyncExternalStore(
    (listener) => turns.subscribe(turn, listener),
    () => turns.get(turn),
  )
}
