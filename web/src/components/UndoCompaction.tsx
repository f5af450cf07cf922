import { useState } from 'react'
import { explain, type Session } from '../api.ts'
import { useUndo } from '../queries.ts'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'

/** Takes the compaction back that a session began with, as long as it is the newest; says why that can't be. */
export function UndoCompaction({ session }: { session: Session }) {
  const undo = useUndo(session.conversation_id)
  const [asked, setAsked] = useState(false)
  return (
    <>
      {undo.error && <ErrorNote problem={explain(undo.error)} />}
      {undoable(session) && (
        <button type="button" className={controls.plain} onClick={() => setAsked(true)} disabled={undo.isPending} data-testid="undo">
          {undo.isPending ? 'Undoing…' : 'Undo this compaction'}
        </button>
      )}
      {asked && (
        <Confirm
          question="Undo this compaction?"
          detail="The messages come back into the window in full. The next request is as long as before and pays for the lost cache. It compacts again when you ask for it, or when a message would not fit."
          action="Undo it"
          onCancel={() => setAsked(false)}
          onConfirm={() => {
            setAsked(false)
            undo.mutate(session.id)
          }}
        />
      )}
    </>
  )
}

/** Only the session that goes on can be taken back to the one before its compaction. */
export function undoable(session: Session): boolean {
  return session.current && session.opened_by === 'compaction'
}
