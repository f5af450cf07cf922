/** Messages on their way, whose turns have no id yet: a stop holds for them too. */

import { useSyncExternalStore } from 'react'
import { api } from './api.ts'
import type { Taken } from './turns.ts'

/** One message on its way. */
export interface Beginning {
  /** Somebody asked to stop it. */
  readonly stopped: boolean
}

/** How long a stop waits for the turn to get its id, before the conversation is told to stop what it begins. */
const PATIENCE_MS = 400
const NEW = 'new'
const all = new Map<string, Beginning>()
const listeners = new Set<() => void>()

function set(key: string, value: Beginning | null): void {
  if (value === null) all.delete(key)
  else all.set(key, value)
  for (const listener of listeners) listener()
}

/** What is on its way in a conversation; null if nothing is. */
export function useBeginning(conversation: string | null): Beginning | null {
  const current = () => all.get(conversation ?? NEW) ?? null
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    current,
    current,
  )
}

/** Stop what is on its way. */
export function stopBeginning(conversation: string | null): void {
  const key = conversation ?? NEW
  if (all.has(key)) set(key, { stopped: true })
}

export interface OnItsWay {
  /** Whether it was stopped before anything was sent. */
  stopped: () => boolean
  /** Send it by `work`; a stop that was asked for meanwhile reaches whatever it became. */
  send: (target: string, work: () => Promise<Taken>) => Promise<Taken>
  done: () => void
}

/** Take a message on its way, from before anything is sent until its first packet is there. */
export function onItsWay(conversation: string | null): OnItsWay {
  const key = conversation ?? NEW
  set(key, { stopped: false })
  const stopped = () => all.get(key)?.stopped === true
  return {
    stopped,
    send: async (target, work) => {
      let told: ReturnType<typeof setTimeout> | undefined
      const look = () => {
        // It may wait for long before it begins, for a compaction say: the conversation knows it by then.
        if (stopped()) told ??= setTimeout(() => void api.command(target, '/abort').catch(() => undefined), PATIENCE_MS)
      }
      listeners.add(look)
      try {
        const taken = await work()
        if (stopped()) await stop(target, taken).catch(() => undefined)
        return taken
      } finally {
        listeners.delete(look)
        clearTimeout(told)
      }
    },
    done: () => set(key, null),
  }
}

async function stop(conversation: string, taken: Taken): Promise<void> {
  if (taken.type === 'turn.started') await api.stop(taken.turn_id)
  if (taken.type === 'turn.queued') await api.command(conversation, '/abort')
}
