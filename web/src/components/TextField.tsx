import { type ReactNode, useState } from 'react'
import { namesIn, problemAt } from '../fields.ts'
import { Field } from './Field.tsx'

interface Props {
  name: string
  label: string
  value: string
  onChange: (value: string) => void
  /** What saving was refused with. */
  error: unknown
  hint?: ReactNode
  /** Lines that are shown; one line without them. */
  rows?: number
  autoFocus?: boolean
}

/** A labelled text of one line or more, with what is wrong with it. */
export function TextField({ name, label, value, onChange, error, hint, rows, autoFocus = false }: Props) {
  return (
    <Field label={label} hint={hint} problem={problemAt(error, name)}>
      {(control) =>
        rows === undefined ? (
          <input {...control} dir="auto" name={name} value={value} onChange={(event) => onChange(event.target.value)} autoFocus={autoFocus} />
        ) : (
          <textarea {...control} dir="auto" name={name} rows={rows} value={value} onChange={(event) => onChange(event.target.value)} />
        )
      }
    </Field>
  )
}

interface WordsProps extends Omit<Props, 'value' | 'onChange' | 'rows' | 'autoFocus'> {
  value: readonly string[]
  onChange: (value: string[]) => void
}

/** Words with commas between them. */
export function WordsField({ value, onChange, ...props }: WordsProps) {
  const [text, setText] = useState(() => value.join(', '))
  const change = (now: string) => {
    setText(now)
    onChange(namesIn(now))
  }
  return <TextField {...props} value={text} onChange={change} />
}
