/** How this browser shows the page: its theme, the size of its text, its density, and the key that sends a message. */

import { useSyncExternalStore } from 'react'

export const choices = {
  theme: ['system', 'light', 'dark'],
  text: ['normal', 'small', 'large'],
  density: ['comfortable', 'compact'],
  send: ['enter', 'modifier'],
} as const

export type Preferences = { [Name in keyof typeof choices]: (typeof choices)[Name][number] }

const KEY = 'lamella.preferences'

const listeners = new Set<() => void>()
let current = valid({})

/** What is stored, with the first choice in the place of what is missing or unknown. */
export function valid(stored: unknown): Preferences {
  const found = (typeof stored === 'object' && stored !== null ? stored : {}) as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(choices).map(([name, known]) => [name, known.find((one) => one === found[name]) ?? known[0]]),
  ) as Preferences
}

function load(): void {
  try {
    current = valid(JSON.parse(localStorage.getItem(KEY) ?? '{}'))
  } catch {
    // Not allowed, or no JSON: then the page looks as usual.
  }
  Object.assign(document.documentElement.dataset, current)
  for (const listener of listeners) listener()
}

/** Called before the page renders; other tabs of this browser change with it. */
export function loadPreferences(): void {
  load()
  addEventListener('storage', (event) => event.key === KEY && load())
}

export function prefer(patch: Partial<Preferences>): void {
  current = { ...current, ...patch }
  Object.assign(document.documentElement.dataset, current)
  for (const listener of listeners) listener()
  try {
    localStorage.setItem(KEY, JSON.stringify(current))
  } catch {
    // Not allowed, or full: it holds until the page is loaded again.
  }
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => current,
  )
}

/** Whether a key that was pressed in a message sends it. */
export function sends(event: { key: string; shiftKey: boolean; ctrlKey: boolean; metaKey: boolean }, send: Preferences['send']): boolean {
  if (event.key !== 'Enter' || event.shiftKey) return false
  return send === 'enter' || event.ctrlKey || event.metaKey
}
