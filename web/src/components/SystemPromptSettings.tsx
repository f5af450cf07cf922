import type { SystemPrompt } from '../objects.ts'
import { type FormEvent, useEffect, useState } from 'react'
import { problemAt, problemElsewhere } from '../fields.ts'
import { useUnsaved } from '../unsaved.ts'
import { useSaveSystemPrompt, useSystemPrompts } from '../resourceQueries.ts'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field, useFirstWrong } from './Field.tsx'
import form from './form.module.css'
import { PromptVersions } from './PromptVersions.tsx'

/** The text that new conversations begin with; every version is kept. */
export function SystemPromptSettings() {
  const versions = useSystemPrompts()
  const newest = versions.data?.[0]
  const [editing, setEditing] = useState(false)
  return (
    <>
      <p className={form.quiet}>
        New conversations begin with the newest version. A conversation keeps the version it began with until it is
        given another, so that its window does not change unasked.
      </p>
      {versions.error && <QueryError error={versions.error} />}
      {versions.isLoading && <p className={form.quiet}>Loading…</p>}
      {newest && <Editor key={newest.version} newest={newest} onEditing={setEditing} />}
      {versions.data && <PromptVersions versions={versions.data} editing={editing} />}
    </>
  )
}

function Editor({ newest, onEditing }: { newest: SystemPrompt; onEditing: (editing: boolean) => void }) {
  const [text, setText] = useState(newest.text)
  const [note, setNote] = useState('')
  const save = useSaveSystemPrompt()
  const element = useFirstWrong(save.error)
  const changed = text !== newest.text
  const unsaved = changed && !save.isSuccess
  useUnsaved(unsaved)
  useEffect(() => onEditing(unsaved), [onEditing, unsaved])
  const problem = problemElsewhere(save.error, ['text', 'note'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate({ text, ...(note.trim() ? { note: note.trim() } : {}) })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="system-form">
      {problem && <ErrorNote problem={problem} />}
      <Field label="System prompt" problem={problemAt(save.error, 'text')}>
        {(control) => (
          <textarea {...control} dir="auto" name="text" rows={14} value={text} onChange={(event) => setText(event.target.value)} />
        )}
      </Field>
      {changed && (
        <>
          <Field label="Note" hint="What changed and why; shown in the list of versions. May be empty." problem={problemAt(save.error, 'note')}>
            {(control) => <input {...control} dir="auto" name="note" value={note} onChange={(event) => setNote(event.target.value)} />}
          </Field>
          <div className={form.actions}>
            <button type="submit" className={controls.strong} disabled={save.isPending} data-testid="save">
              {save.isPending ? 'Saving…' : 'Save as a new version'}
            </button>
            <button type="button" className={controls.plain} onClick={() => setText(newest.text)}>
              Discard
            </button>
          </div>
        </>
      )}
    </form>
  )
}
