import type { Project } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { problemAt, problemElsewhere } from '../fields.ts'
import { useLeaving } from '../unsaved.ts'
import { useStatus } from '../queries.ts'
import { useRemoveProject, useSaveProject } from '../resourceQueries.ts'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { useFirstWrong } from './Field.tsx'
import { FormActions } from './FormActions.tsx'
import form from './form.module.css'
import { ProjectFiles } from './ProjectFiles.tsx'
import { TextField } from './TextField.tsx'
import { useProjectFiles } from '../projectFiles.ts'

const FIELDS = ['name', 'instructions', 'file_ids']

/** One project. Its files are uploaded at once and belong to it when it is saved. */
export function ProjectForm({ project, onDone }: { project: Project | null; onDone: () => void }) {
  const [name, setName] = useState(project?.name ?? '')
  const [instructions, setInstructions] = useState(project?.instructions ?? '')
  const limit = useStatus().data?.max_upload_bytes
  const files = useProjectFiles(project?.files ?? [], limit)
  const save = useSaveProject(project?.id ?? null)
  const element = useFirstWrong(save.error)
  const remove = useRemoveProject()
  const written = name !== (project?.name ?? '') || instructions !== (project?.instructions ?? '')
  const dirty = !save.isSuccess && !remove.isSuccess && (written || files.changed)
  const { leave } = useLeaving(dirty, onDone)
  const problem = problemElsewhere(save.error, FIELDS)

  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!files.busy) save.mutate({ name, instructions, file_ids: files.ids }, { onSuccess: leave })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="project-form">
      {problem && <ErrorNote problem={problem} />}
      {remove.error && <QueryError error={remove.error} />}
      <TextField name="name" label="Name" value={name} error={save.error} onChange={setName} autoFocus={!project} />
      <TextField
        name="instructions"
        label="Instructions"
        hint="What the model has to know about the project. May be empty."
        rows={5}
        value={instructions}
        error={save.error}
        onChange={setInstructions}
      />
      <ProjectFiles project={project?.id ?? null} files={files} problem={problemAt(save.error, 'file_ids') ?? problemAt(save.error, 'file_id')} />
      <FormActions
        save={files.busy ? 'Uploading…' : project ? 'Save' : 'Create the project'}
        saving={save.isPending || files.busy}
        dirty={dirty}
        onCancel={leave}
        remove={
          project
            ? {
                question: 'Delete this project?',
                detail: `“${project.name}” is removed for good. Its conversations stay.`,
                onConfirm: () => remove.mutate(project.id, { onSuccess: leave }),
              }
            : undefined
        }
      />
    </form>
  )
}
