import { Plus, X } from 'lucide-react';
import { Button, IconButton } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';

/** A variable being edited; `key` is stable while its name changes. */
export interface Variable {
  readonly key: string;
  readonly name: string;
  readonly value: string;
}

export const variablesOf = (env: Readonly<Record<string, string>>): Variable[] =>
  Object.entries(env).map(([name, value]) => ({ key: name, name, value }));

/** Returns a message about the first problem in the variables. */
export function problemOf(variables: readonly Variable[]): string | undefined {
  const names = variables.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (names.includes('')) return 'Every variable needs a name.';
  return twice === undefined ? undefined : `${twice} is defined twice.`;
}

export const envOf = (variables: readonly Variable[]): Record<string, string> =>
  Object.fromEntries(variables.map(({ name, value }) => [name, value]));

/** Editor of plain environment variables. */
export function EnvironmentEditor({
  variables,
  onChange,
}: {
  readonly variables: readonly Variable[];
  readonly onChange: (variables: readonly Variable[]) => void;
}) {
  const set = (key: string, change: Partial<Variable>) =>
    onChange(variables.map((each) => (each.key === key ? { ...each, ...change } : each)));
  return (
    <div className="flex flex-col gap-2">
      {variables.map(({ key, name, value }, index) => (
        <div key={key} className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_auto] items-start gap-2">
          <TextField
            label={`Name of variable ${index + 1}`}
            isLabelHidden
            isMono
            placeholder="NAME"
            value={name}
            onChange={(text) => set(key, { name: text.trim() })}
          />
          <TextField
            label={`Value of ${name === '' ? `variable ${index + 1}` : name}`}
            isLabelHidden
            isMono
            placeholder="value"
            value={value}
            onChange={(text) => set(key, { value: text })}
          />
          <IconButton
            icon={X}
            label={`Remove ${name === '' ? `variable ${index + 1}` : name}`}
            onPress={() => onChange(variables.filter((each) => each.key !== key))}
          />
        </div>
      ))}
      <div>
        <Button icon={Plus} onPress={() => onChange([...variables, { key: crypto.randomUUID(), name: '', value: '' }])}>
          Add variable
        </Button>
      </div>
    </div>
  );
}
