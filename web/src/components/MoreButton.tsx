import type { ReactNode } from 'react'
import controls from './controls.module.css'

interface Props {
  list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }
  className?: string | undefined
  testId?: string
  children: ReactNode
}

/** Loads the next part of a list, if there is one. */
export function MoreButton({ list, className = controls.plain, testId, children }: Props) {
  if (!list.hasNextPage) return null
  return (
    <button
      type="button"
      className={className}
      onClick={() => void list.fetchNextPage()}
      disabled={list.isFetchingNextPage}
      data-testid={testId}
    >
      {list.isFetchingNextPage ? 'Loading…' : children}
    </button>
  )
}
