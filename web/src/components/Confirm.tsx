import { lazy, Suspense } from 'react'
import type { Asked } from './ConfirmDialog.tsx'

const ConfirmDialog = lazy(() => import('./ConfirmDialog.tsx'))

/** Asks before something that cannot be undone. The dialog is loaded when the first question is asked. */
export function Confirm(asked: Asked) {
  return (
    <Suspense fallback={null}>
      <ConfirmDialog {...asked} />
    </Suspense>
  )
}
