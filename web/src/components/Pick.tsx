import { useId } from 'react'
import styles from './ChoiceLine.module.css'
import { Choose, type Option } from './Choose.tsx'

interface PickProps {
  label: string
  name: string
  value: string | null
  /** What stands for no value; left out if there has to be one. */
  none?: string
  detail?: string | undefined
  options: readonly Option[]
  onChange: (value: string | null) => void
}

/** A choice in a line, with its label before it. */
export function Pick({ label, name, value, none, detail, options, onChange }: PickProps) {
  const id = useId()
  return (
    <span className={styles.pick} title={detail}>
      <span id={id}>{label}</span>
      <Choose
        value={value}
        none={none}
        // The name of a removed value is gone with it, and nobody can read its id.
        options={value !== null && none !== undefined && !options.some((one) => one.id === value) ? [...options, { id: value, name: 'removed' }] : options}
        onChange={onChange}
        plain
        aria-labelledby={id}
        testId={`choose-${name}`}
      />
    </span>
  )
}
