/** The address bar: `/` is a new conversation, `/c/ID` an existing one. */

import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()

export function conversationIn(path: string): string | null {
  return /^\/c\/([\w-]+)\/?$/.exec(path)?.[1] ?? null
}

export function pathOf(conversation: string | null): string {
  return conversation === null ? '/' : `/c/${conversation}`
}

/** Go there without loading the page again. */
export function go(conversation: string | null, replace = false): void {
  const path = pathOf(conversation)
  if (path !== location.pathname) history[replace ? 'replaceState' : 'pushState'](null, '', path)
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('popstate', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('popstate', listener)
  }
}

export function useConversationId(): string | null {
  return useSyncExternalStore(subscribe, () => conversationIn(location.pathname))
}
