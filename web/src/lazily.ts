/** What is loaded only when something on the page needs it. */

import { useSyncExternalStore } from 'react'

export interface Lazy<Module> {
  /** For a component: the module, or null while it is loading. With `wanted` false nothing is loaded. */
  use: (wanted?: boolean) => Module | null
  /** Load it now. Resolves with null if it can't be had; the next who needs it tries again. */
  load: () => Promise<Module | null>
}

export function lazily<Module>(fetch: () => Promise<Module>): Lazy<Module> {
  let module: Module | null = null
  let loading: Promise<Module | null> | null = null
  const listeners = new Set<() => void>()
  const load = () => {
    loading ??= fetch().then(
      (loaded) => {
        module = loaded
        for (const listener of listeners) listener()
        return loaded
      },
      () => {
        loading = null
        return null
      },
    )
    return loading
  }
  const subscribe = (listener: () => void) => {
    listeners.add(listener)
    void load()
    return () => listeners.delete(listener)
  }
  const here = () => module
  return { load, use: (wanted = true) => useSyncExternalStore(wanted ? subscribe : nothing, here, here) }
}

const nothing = () => () => undefined
