import type { FormField, KnowledgeBase, RestrictedLevel } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { type BaseValue, useSaveBase } from '../access.ts'
import { problemAt, problemElsewhere } from '../fields.ts'
import { exact } from '../format.ts'
import { useUnsaved } from '../unsaved.ts'
import { answersOf, MOST_ANSWERS } from '../restricted.ts'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { Field, FieldProblem, useFirstWrong } from './Field.tsx'
import form from './form.module.css'
import styles from './Restricted.module.css'
import { TextField } from './TextField.tsx'

const LEVELS: { level: RestrictedLevel; label: string; about: string }[] = [
  { level: 'summary', label: 'Summary', about: 'Answers in general words. For manuals and policies.' },
  { level: 'form', label: 'Form', about: 'Answers chosen from choices that you write. For staff matters and contracts.' },
  { level: 'existence', label: 'Existence', about: 'Only whether there is something, and whom to ask. For anything else.' },
]

interface Value {
  restricted_level: RestrictedLevel
  contact: string
  form: FormField[]
}

/** A line as a choice: empty ones are left out when it is saved, not while somebody writes. */
const choicesIn = (text: string) => text.split('\n')

/** What is sent: the lines of a field without empty ones. */
export function levelOf(value: Value): Partial<BaseValue> {
  const fields = value.form.map(({ name, choices }) => ({ name: name.trim(), choices: choices.map((one) => one.trim()).filter(Boolean) }))
  // Fields that are not used are kept as far as they are whole.
  const whole = value.restricted_level === 'form' ? fields : fields.filter(({ name, choices }) => name !== '' && choices.length > 1)
  return { restricted_level: value.restricted_level, contact: value.contact, form: whole }
}

/** How much restricted readers get of a base. */
export function RestrictedLevelForm({ base }: { base: KnowledgeBase }) {
  const [stored, setStored] = useState<Value>(() => ({
    restricted_level: base.restricted_level ?? 'summary',
    contact: base.contact ?? '',
    form: base.form ?? [],
  }))
  const [value, setValue] = useState(stored)
  const save = useSaveBase(base.id)
  const element = useFirstWrong(save.error)
  const dirty = JSON.stringify(value) !== JSON.stringify(stored)
  const release = useUnsaved(dirty)
  const set = (patch: Partial<Value>) => setValue((old) => ({ ...old, ...patch }))
  const problem = problemElsewhere(save.error, ['form', 'contact'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const sent = value
    const onSuccess = () => {
      release()
      setStored(sent)
    }
    save.mutate({ name: base.name, ...levelOf(sent) }, { onSuccess })
  }
  const choose = (level: RestrictedLevel) =>
    set({ restricted_level: level, ...(level === 'form' && value.form.length === 0 ? { form: [{ name: '', choices: [] }] } : {}) })
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="restricted-level-form">
      {problem && <ErrorNote problem={problem} />}
      <fieldset className={form.group}>
        <legend className={form.legend}>What restricted readers get</legend>
        {LEVELS.map(({ level, label, about }) => (
          <label key={level} className={form.check}>
            <input type="radio" name="restricted_level" value={level} checked={value.restricted_level === level} onChange={() => choose(level)} />
            <span>
              <strong>{label}</strong> {about}
            </span>
          </label>
        ))}
      </fieldset>
      {value.restricted_level === 'form' && <Choices fields={value.form} error={save.error} onChange={(fields) => set({ form: fields })} />}
      {value.restricted_level === 'existence' && (
        <TextField
          name="contact"
          label="Whom to ask"
          hint="A name or an address. Empty: your name."
          value={value.contact}
          error={save.error}
          onChange={(contact) => set({ contact })}
        />
      )}
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={save.isPending || !dirty} data-testid="save-level">
          {save.isPending ? 'Saving…' : 'Save'}
        </button>
        {dirty && (
          <button type="button" className={controls.plain} onClick={() => setValue(stored)}>
            Discard
          </button>
        )}
        {!dirty && <span className={form.hint}>{save.isSuccess ? 'Saved. It holds from the next question on.' : 'Nothing to save.'}</span>}
      </div>
    </form>
  )
}

interface ChoicesProps {
  fields: FormField[]
  error: unknown
  onChange: (fields: FormField[]) => void
}

/** The owner's choices: every answer picks one of each field. */
function Choices({ fields, error, onChange }: ChoicesProps) {
  const problem = problemAt(error, 'form')
  const change = (at: number, patch: Partial<FormField>) => onChange(fields.map((one, index) => (index === at ? { ...one, ...patch } : one)))
  const answers = answersOf(fields.map(({ choices }) => ({ choices: choices.filter((one) => one.trim() !== '') })))
  return (
    <div className={styles.part} data-testid="level-choices">
      {fields.map((one, at) => (
        <fieldset key={at} className={styles.field}>
          <legend>Field {at + 1}</legend>
          <Field label="Question">
            {(control) => (
              <input
                {...control}
                dir="auto"
                placeholder="Notice period"
                aria-invalid={problem !== null && one.name.trim() === ''}
                value={one.name}
                maxLength={200}
                onChange={(event) => change(at, { name: event.target.value })}
              />
            )}
          </Field>
          <Field label="Choices" hint="One on each line, two or more. The second model picks one: give it “not said” to pick.">
            {(control) => (
              <textarea
                {...control}
                dir="auto"
                rows={4}
                placeholder={'a month\nlonger\nnot said'}
                aria-invalid={problem !== null && one.choices.filter((choice) => choice.trim()).length < 2}
                value={one.choices.join('\n')}
                onChange={(event) => change(at, { choices: choicesIn(event.target.value) })}
              />
            )}
          </Field>
          <div className={form.actions}>
            <button type="button" className={controls.plain} onClick={() => onChange(fields.filter((_, index) => index !== at))}>
              Remove field {at + 1}
            </button>
          </div>
        </fieldset>
      ))}
      {problem && <FieldProblem problem={problem} />}
      {answers > 1 && (
        <p className={answers > MOST_ANSWERS ? form.error : form.hint}>
          {exact(answers)} different answers; at most {exact(MOST_ANSWERS)}.
        </p>
      )}
      <div className={form.actions}>
        <button
          type="button"
          className={controls.plain}
          disabled={fields.length >= 20}
          onClick={() => onChange([...fields, { name: '', choices: [] }])}
          data-testid="add-field"
        >
          Add a field
        </button>
      </div>
    </div>
  )
}
