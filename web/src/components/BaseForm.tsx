import type { KnowledgeBase } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { type BaseValue, useRemoveBase, useSaveBase } from '../access.ts'
import { problemElsewhere } from '../fields.ts'
import { useLeaving } from '../unsaved.ts'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { useFirstWrong } from './Field.tsx'
import { FormActions } from './FormActions.tsx'
import form from './form.module.css'
import { TextField, WordsField } from './TextField.tsx'

const FIELDS = ['name', 'description', 'visible', 'hint', 'keywords', 'summary', 'topics'] as const

type Described = Pick<BaseValue, (typeof FIELDS)[number]>

const blank: Described = { name: '', description: '', visible: false, hint: '', keywords: [], summary: '', topics: [] }

function valueOf(base: KnowledgeBase | null): Described {
  return Object.fromEntries(FIELDS.map((field) => [field, base?.[field] ?? blank[field]])) as unknown as Described
}

/** What is sent: the name, and what was changed. What a model wrote and nobody touched stays the model's. */
export function changedIn(value: Described, first: Described): Partial<BaseValue> {
  const changed = FIELDS.filter((field) => JSON.stringify(value[field]) !== JSON.stringify(first[field]))
  return { name: value.name, ...Object.fromEntries(changed.map((field) => [field, value[field]])) }
}

interface Props {
  base: KnowledgeBase | null
  onDone: () => void
  /** A new one is there. */
  onMade: (id: string) => void
}

/** What is said of a base. */
export function BaseForm({ base, onDone, onMade }: Props) {
  const [first] = useState(() => valueOf(base))
  const [value, setValue] = useState(first)
  const set = (patch: Partial<Described>) => setValue((old) => ({ ...old, ...patch }))
  const save = useSaveBase(base?.id ?? null)
  const remove = useRemoveBase()
  const element = useFirstWrong(save.error)
  const dirty = !save.isSuccess && !remove.isSuccess && JSON.stringify(value) !== JSON.stringify(first)
  const { release, leave } = useLeaving(dirty, onDone)
  const problem = problemElsewhere(save.error, FIELDS)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate(changedIn(value, first), {
      onSuccess: (saved) => {
        release()
        onMade(saved.id)
      },
    })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="base-form">
      {problem && <ErrorNote problem={problem} />}
      {remove.error && <QueryError error={remove.error} />}
      <TextField name="name" label="Name" value={value.name} error={save.error} onChange={(name) => set({ name })} autoFocus={!base} />
      <TextField
        name="description"
        label="Description"
        hint="What is in it, for people who choose it."
        rows={3}
        value={value.description}
        error={save.error}
        onChange={(description) => set({ description })}
      />
      <label className={form.check}>
        <input type="checkbox" name="visible" checked={value.visible} onChange={(event) => set({ visible: event.target.checked })} />
        Members without access see its name and description, as you write them here
      </label>
      <TextField
        name="hint"
        label="Hint"
        hint="Tells restricted readers what they can ask. Write nothing confidential."
        rows={2}
        value={value.hint}
        error={save.error}
        onChange={(hint) => set({ hint })}
      />
      <WordsField
        name="keywords"
        label="Keywords"
        hint="Words for their searches, with commas between them. Nothing confidential."
        value={value.keywords}
        error={save.error}
        onChange={(keywords) => set({ keywords })}
      />
      {base && (
        <>
          <TextField
            name="summary"
            label="Summary"
            hint={byWhom(base)}
            rows={4}
            value={value.summary}
            error={save.error}
            onChange={(summary) => set({ summary })}
          />
          <WordsField
            name="topics"
            label="Topics"
            hint="With commas between them."
            value={value.topics}
            error={save.error}
            onChange={(topics) => set({ topics })}
          />
        </>
      )}
      <FormActions
        save={base ? 'Save' : 'Create'}
        saving={save.isPending}
        dirty={dirty}
        onCancel={leave}
        remove={
          base
            ? {
                question: `Delete “${base.name}”?`,
                detail: 'With all that is in it, for everybody.',
                onConfirm: () => remove.mutate(base.id, { onSuccess: leave }),
              }
            : undefined
        }
      />
    </form>
  )
}

function byWhom({ described_by }: KnowledgeBase): string {
  switch (described_by) {
    case 'model':
      return 'A model wrote summary and topics from the documents. What you write instead stays.'
    case 'user':
      return 'Yours: no model writes over it. Without summary and topics a model writes them again.'
    default:
      return 'What the documents are about. Where a model writes summaries, it does so once they are read.'
  }
}
