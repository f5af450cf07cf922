import { type FormEvent, useState } from 'react'
import { type Base, type BaseValue, useRemoveBase, useSaveBase } from '../access.ts'
import { namesIn, problemAt, problemElsewhere } from '../fields.ts'
import { useUnsaved } from '../panels.ts'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field, useFirstWrong } from './Field.tsx'
import { FormActions } from './FormActions.tsx'
import form from './form.module.css'

const FIELDS = ['name', 'description', 'visible', 'hint', 'summary', 'topics'] as const
const blank: BaseValue = { name: '', description: '', visible: false, hint: '', summary: '', topics: [] }

function valueOf(base: Base | null): BaseValue {
  return Object.fromEntries(FIELDS.map((field) => [field, base?.[field] ?? blank[field]])) as unknown as BaseValue
}

/** What is sent: the name, and what was changed. What a model wrote and nobody touched stays the model's. */
export function changedIn(value: BaseValue, first: BaseValue): Partial<BaseValue> {
  const changed = FIELDS.filter((field) => JSON.stringify(value[field]) !== JSON.stringify(first[field]))
  return { name: value.name, ...Object.fromEntries(changed.map((field) => [field, value[field]])) }
}

interface Props {
  base: Base | null
  onDone: () => void
  /** A new one is there. */
  onMade: (id: string) => void
}

/** What is said of a base. */
export function BaseForm({ base, onDone, onMade }: Props) {
  const [first] = useState(() => valueOf(base))
  const [value, setValue] = useState(first)
  const [topics, setTopics] = useState(() => first.topics.join(', '))
  const set = (patch: Partial<BaseValue>) => setValue((old) => ({ ...old, ...patch }))
  const save = useSaveBase(base?.id ?? null)
  const remove = useRemoveBase()
  const element = useFirstWrong(save.error)
  const dirty = !save.isSuccess && !remove.isSuccess && JSON.stringify(value) !== JSON.stringify(first)
  const release = useUnsaved(dirty)
  const leave = () => {
    release()
    onDone()
  }
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
      <Field label="Name" problem={problemAt(save.error, 'name')}>
        {(control) => (
          <input {...control} name="name" value={value.name} onChange={(event) => set({ name: event.target.value })} autoFocus={!base} />
        )}
      </Field>
      <Field label="Description" hint="What is in it, for people who choose it." problem={problemAt(save.error, 'description')}>
        {(control) => (
          <textarea {...control} name="description" rows={3} value={value.description} onChange={(event) => set({ description: event.target.value })} />
        )}
      </Field>
      <label className={form.check}>
        <input type="checkbox" name="visible" checked={value.visible} onChange={(event) => set({ visible: event.target.checked })} />
        Members without access see its name and description
      </label>
      <Field
        label="Hint"
        hint="What somebody with restricted access may know of it, so that the right questions are asked. Nothing confidential."
        problem={problemAt(save.error, 'hint')}
      >
        {(control) => (
          <textarea {...control} name="hint" rows={2} value={value.hint} onChange={(event) => set({ hint: event.target.value })} />
        )}
      </Field>
      {base && (
        <>
          <Field label="Summary" hint={byWhom(base)} problem={problemAt(save.error, 'summary')}>
            {(control) => (
              <textarea {...control} name="summary" rows={4} value={value.summary} onChange={(event) => set({ summary: event.target.value })} />
            )}
          </Field>
          <Field label="Topics" hint="With commas between them." problem={problemAt(save.error, 'topics')}>
            {(control) => (
              <input
                {...control}
                name="topics"
                value={topics}
                onChange={(event) => {
                  setTopics(event.target.value)
                  set({ topics: namesIn(event.target.value) })
                }}
              />
            )}
          </Field>
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

function byWhom({ described_by }: Base): string {
  switch (described_by) {
    case 'model':
      return 'A model wrote summary and topics from the documents. What you write instead stays.'
    case 'user':
      return 'Yours: no model writes over it. Without summary and topics a model writes them again.'
    default:
      return 'What the documents are about. Where a model writes summaries, it does so once they are read.'
  }
}
