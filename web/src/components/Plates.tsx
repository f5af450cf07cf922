import styles from './Answer.module.css'

/** The mark at work: something moves as long as an answer is not complete. */
export function Plates() {
  return (
    <span className={styles.plates} aria-hidden="true">
      <i />
      <i />
      <i />
    </span>
  )
}
