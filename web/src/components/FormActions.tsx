import { useState } from 'react'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import form from './form.module.css'

interface Props {
  save: string
  saving: boolean
  dirty: boolean
  onCancel: () => void
  /** What deleting asks and does; left out where there is nothing to delete yet. */
  remove?: { question: string; detail: string; onConfirm: () => void } | undefined
}

/** The buttons under a form. Deleting asks first. */
export function FormActions({ save, saving, dirty, onCancel, remove }: Props) {
  const [asking, setAsking] = useState(false)
  return (
    <div className={form.actions}>
      <button type="submit" className={controls.strong} disabled={saving} data-testid="save">
        {saving ? 'Saving…' : save}
      </button>
      <button type="button" className={controls.plain} onClick={onCancel} data-testid="form-back">
        {dirty ? 'Discard' : 'Back'}
      </button>
      {remove && (
        <button
          type="button"
          className={`${controls.danger} ${form.end}`}
          onClick={() => setAsking(true)}
          data-testid="delete"
        >
          Delete
        </button>
      )}
      {remove && asking && (
        <Confirm
          question={remove.question}
          detail={remove.detail}
          action="Delete"
          onConfirm={() => {
            setAsking(false)
            remove.onConfirm()
          }}
          onCancel={() => setAsking(false)}
        />
      )}
    </div>
  )
}
