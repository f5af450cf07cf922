import styles from './ChoiceLine.module.css'

interface PickProps {
  label: string
  name: string
  value: string | null
  /** What stands for no value; left out where there has to be one. */
  none?: string
  detail?: string | undefined
  options: { id: string; name: string }[]
  onChange: (value: string | null) => void
}

/** A small labelled choice. A value that is none of the options, because it was removed, is still shown. */
export function Pick({ label, name, value, none, detail, options, onChange }: PickProps) {
  const lost = value !== null && !options.some((option) => option.id === value)
  return (
    <label className={styles.pick} title={detail}>
      <span>{label}</span>
      <select
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value || null)}
        data-testid={`choose-${name}`}
      >
        {(none !== undefined || value === null) && <option value="">{none ?? '…'}</option>}
        {lost && <option value={value}>{none === undefined ? value : 'removed'}</option>}
        {options.map((option) => (
          <option key={option.id} value={option.id}>
            {option.name}
          </option>
        ))}
      </select>
    </label>
  )
}
