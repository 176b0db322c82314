import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';

/** Selects secrets of the workspace. `required` secrets are always selected. */
export function SecretChoice({
  required,
  chosen,
  onChange,
}: {
  readonly required: readonly string[];
  readonly chosen: readonly string[];
  /** Read-only if omitted. */
  readonly onChange?: (chosen: readonly string[]) => void;
}) {
  const { id: workspace_id, slug } = useWorkspace();
  const { data, error } = useOperation('listSecrets', { params: { workspace_id } });
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Loading lines={2} />;
  const stored = data.secrets.map(({ name }) => name);
  const names = [...new Set([...required, ...chosen, ...stored])].sort();
  const noteOf = (name: string) =>
    !stored.includes(name) ? ' (missing)' : required.includes(name) ? ' (required by the agent)' : '';
  return (
    <div className="flex flex-col gap-2">
      {names.map((name) => (
        <Checkbox
          key={name}
          value={required.includes(name) || chosen.includes(name)}
          isDisabled={onChange === undefined || required.includes(name)}
          onChange={(isOn) => onChange?.(isOn ? [...chosen, name] : chosen.filter((each) => each !== name))}
        >
          <span className="font-mono text-xs">{name}</span>
          {noteOf(name)}
        </Checkbox>
      ))}
      <p className="text-soft">
        {names.length === 0 && 'The workspace has no secrets. '}
        <Link to="/$workspace/settings/secrets" params={{ workspace: slug }}>
          Secrets of the workspace
        </Link>
      </p>
    </div>
  );
}
