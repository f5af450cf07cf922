import { type FormEvent, useState } from 'react'
import { type Base, type BaseValue, useBases, useRemoveBase, useSaveBase } from '../access.ts'
import { problemAt, problemElsewhere } from '../fields.ts'
import { useUnsaved } from '../panels.ts'
import { BaseAccess } from './BaseAccess.tsx'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field, useFirstWrong } from './Field.tsx'
import { FormActions } from './FormActions.tsx'
import form from './form.module.css'
import type { SectionProps } from './Settings.tsx'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'Knowledge bases that you can see. Whose base it is says who else may read it.'
const blank: BaseValue = { name: '', description: '', visible: false }

/** Knowledge bases, and for one's own the access to them. */
export function BaseSettings({ id, onOpen }: SectionProps) {
  const bases = useBases()
  const base = bases.data?.find((one) => one.id === id)
  const onDone = () => onOpen(null)
  if (id === 'new') return <BaseForm base={null} onDone={onDone} />
  if (base?.yours)
    return (
      <>
        <BaseForm base={base} onDone={onDone} />
        <BaseAccess base={base} />
      </>
    )
  if (base)
    return (
      <>
        <p>
          <strong>{base.name}</strong>
        </p>
        {base.description && <p>{base.description}</p>}
        <p className={form.quiet}>{gist(base)}. Ask its owner for more.</p>
      </>
    )
  return (
    <>
      {id !== null && bases.isSuccess && <ErrorNote problem={{ message: 'This knowledge base is not there.' }} />}
      <SettingsList items={bases.data} error={bases.error} noun="base" about={ABOUT} gist={gist} onOpen={onOpen} />
    </>
  )
}

const levels = { full: 'You read all of it', restricted: 'You get what a summary may say of it', none: 'You may not read it' }

function gist(base: Base): string {
  return base.yours ? base.description || 'Yours' : levels[base.level]
}

function BaseForm({ base, onDone }: { base: Base | null; onDone: () => void }) {
  const [first] = useState<BaseValue>(() =>
    base ? { name: base.name, description: base.description, visible: base.visible } : blank,
  )
  const [value, setValue] = useState(first)
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
  const problem = problemElsewhere(save.error, ['name', 'description', 'visible'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate(value, { onSuccess: leave })
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
      <Field label="Description" hint="What is in it." problem={problemAt(save.error, 'description')}>
        {(control) => (
          <textarea {...control} name="description" rows={3} value={value.description} onChange={(event) => set({ description: event.target.value })} />
        )}
      </Field>
      <label className={form.check}>
        <input type="checkbox" name="visible" checked={value.visible} onChange={(event) => set({ visible: event.target.checked })} />
        Members without access see its name and description
      </label>
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
