import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, explain } from '../api.ts'
import type { ToolBlock } from '../turn.ts'
import styles from './Approval.module.css'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'

/** Asks the user whether a call may run. Its packets say what was answered, here or in another window. */
export function Approval({ block, turn }: { block: ToolBlock; turn: string }) {
  const [reason, setReason] = useState('')
  const answer = useMutation({
    mutationFn: (approved: boolean) => api.approve(turn, block.callId, approved, approved ? '' : reason.trim()),
  })
  const busy = answer.isPending || answer.isSuccess
  return (
    <form
      className={styles.approval}
      aria-label={`Approval of ${block.name}`}
      onSubmit={(event) => {
        event.preventDefault()
        answer.mutate(false)
      }}
      data-testid="approval"
    >
      <p role="status">
        May <strong>{block.name}</strong> run with these arguments?
      </p>
      {answer.error && <ErrorNote problem={explain(answer.error)} />}
      <div className={styles.line}>
        <button type="button" className={controls.strong} disabled={busy} onClick={() => answer.mutate(true)} data-testid="approve">
          Approve
        </button>
        <button type="submit" className={controls.plain} disabled={busy} data-testid="deny">
          Deny
        </button>
        <input
          value={reason}
          maxLength={2000}
          disabled={busy}
          placeholder="Why not (optional; the model reads it)"
          aria-label="Why not"
          onChange={(event) => setReason(event.target.value)}
          // Escape stops an answer; whoever types a reason does not mean that.
          onKeyDown={(event) => {
            if (event.key === 'Escape') event.preventDefault()
          }}
          data-testid="deny-reason"
        />
      </div>
    </form>
  )
}
