import { useState } from 'react'
import { namesIn, type Problem } from '../fields.ts'
import { Field } from './Field.tsx'
import form from './form.module.css'

interface Props {
  value: string[] | null
  problem: Problem | null
  onChange: (tools: string[] | null) => void
}

/** All tools, or the ones that are named; no name is no tool. */
export function ToolsField({ value, problem, onChange }: Props) {
  const [text, setText] = useState(value?.join(', ') ?? '')
  return (
    <fieldset className={form.group}>
      <legend className={form.legend}>Tools</legend>
      <label className={form.check}>
        <input type="radio" name="tools" checked={value === null} onChange={() => onChange(null)} />
        All there are
      </label>
      <label className={form.check}>
        <input type="radio" name="tools" checked={value !== null} onChange={() => onChange(namesIn(text))} />
        Only these
      </label>
      {value !== null && (
        <Field label="Names of the tools" hint="With commas between them. Without a name it has no tool." problem={problem}>
          {(control) => (
            <input
              {...control}
              name="tool_names"
              value={text}
              spellCheck={false}
              onChange={(event) => {
                setText(event.target.value)
                onChange(namesIn(event.target.value))
              }}
            />
          )}
        </Field>
      )}
    </fieldset>
  )
}
