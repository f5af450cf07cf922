/**
 * The address bar: `/` is a new conversation, `/c/ID` an existing one, `/clients` the conversations of clients and
 * `/clients/ID` one of them.
 */

import { type MouseEvent, useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()

export function conversationIn(path: string): string | null {
  return /^\/c\/([\w-]+)\/?$/.exec(path)?.[1] ?? null
}

export function pathOf(conversation: string | null): string {
  return conversation === null ? '/' : `/c/${conversation}`
}

/** The line in a path: null for the list of all, undefined for the path of anything else. */
export function lineIn(path: string): string | null | undefined {
  const found = /^\/clients(?:\/([\w-]+))?\/?$/.exec(path)
  return found ? (found[1] ?? null) : undefined
}

export function pathOfLine(line: string | null): string {
  return line === null ? '/clients' : `/clients/${line}`
}

/** Go there without loading the page again. */
export function go(conversation: string | null, replace = false): void {
  goTo(pathOf(conversation), replace)
}

/** Go to the clients, or to one of their lines. */
export function goToLine(line: string | null, replace = false): void {
  goTo(pathOfLine(line), replace)
}

function goTo(path: string, replace: boolean): void {
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

export function useLineId(): string | null | undefined {
  return useSyncExternalStore(subscribe, () => lineIn(location.pathname))
}

/** For a link within the page: a plain click follows it without loading the page again. */
export function isPlainClick(event: MouseEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0
}
