import styles from './Welcome.module.css'

/** What stands in an empty conversation. */
export function Welcome() {
  return (
    <div className={styles.welcome}>
      <div className={styles.column}>
        <h1>Ask, with or without documents</h1>
        <p>
          Attach files and pictures with the clip, drop them here or paste them. Answers cite the passages they rest on,
          and the bar below shows what the model saw and what it cost.
        </p>
      </div>
    </div>
  )
}
