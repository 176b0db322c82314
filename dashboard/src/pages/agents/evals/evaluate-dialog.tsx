import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { FileTrigger } from 'react-aria-components/FileTrigger';
import { useAction } from '../../../api/query.ts';
import { useWorkspace } from '../../../api/session.ts';
import { API_URL } from '../../../base.ts';
import type { ChosenFile } from '../../../publishing/chosen-folder.ts';
import { filesOfDrop, filesOfInput } from '../../../publishing/dropped-files.ts';
import { Button } from '../../../ui/button.tsx';
import { bytes } from '../../../ui/data/numbers.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { DropZone } from '../../../ui/drop-zone.tsx';
import { ErrorBox } from '../../../ui/error-box.tsx';
import { Select, TextField } from '../../../ui/field.tsx';
import { OutsideLink } from '../../../ui/link.tsx';
import { escapeText } from '../../../ui/text/escape-text.ts';
import type { TabProps } from '../version.ts';
import { OBSERVED } from './evaluation.ts';
import { readSuiteFiles, type SuiteFile, withoutTopFolder } from './suite-files.ts';

const NO_BASELINE = 'none';

interface Chosen {
  readonly chosen: readonly ChosenFile[];
  /** Those of them that are sent. */
  readonly files: readonly SuiteFile[];
  readonly error?: unknown;
}

const NONE: Chosen = { chosen: [], files: [] };

/** Starts an evaluation with the suites that the user chooses, and goes to its page. */
export function EvaluateDialog({ agent, versions, onClose }: TabProps & { readonly onClose: () => void }) {
  const { slug: workspace } = useWorkspace();
  const navigate = useNavigate();
  const create = useAction('createEval', { stale: ['listEvals'], silent: true });
  const [{ chosen, files, error }, setChosen] = useState(NONE);
  const [version, setVersion] = useState(agent.version);
  const [baseline, setBaseline] = useState(NO_BASELINE);
  const [repeat, setRepeat] = useState('');
  const runnable = versions.filter((each) => each.runnable || each === agent);
  const choices = runnable.map((each) => ({ id: each.version, label: each.version }));
  const isRepeat = repeat.trim() === '' || /^\d{1,2}$/.test(repeat.trim());
  const add = async (more: Promise<readonly ChosenFile[]>) => {
    create.reset();
    try {
      const byPath = new Map([...chosen, ...withoutTopFolder(await more)].map((each) => [each.path, each]));
      const all = [...byPath.values()];
      setChosen({ chosen: all, files: await readSuiteFiles(all) });
    } catch (problem) {
      setChosen({ chosen, files, error: problem });
    }
  };
  const clear = () => {
    create.reset();
    setChosen(NONE);
  };
  const start = () =>
    create.mutate(
      {
        params: { id: versions.find((each) => each.version === version)!.id },
        body: {
          suites: Object.fromEntries(files.map(({ name, text }) => [name, text])),
          ...(baseline !== NO_BASELINE && baseline !== version && { baseline }),
          ...(repeat.trim() !== '' && { repeat: Number(repeat) }),
        },
      },
      {
        onSuccess: ({ eval_id }) =>
          void navigate({
            to: '/$workspace/agents/$name/evals/$eval',
            params: { workspace, name: agent.name, eval: eval_id },
          }),
      },
    );
  return (
    <Dialog
      title={`Evaluate ${agent.name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            variant="primary"
            onPress={start}
            isPending={create.isPending}
            isDisabled={files.length === 0 || !isRepeat}
          >
            Start evaluation
          </Button>
        </>
      }
    >
      <Suites files={files} onAdd={add} onClear={clear} />
      {error !== undefined && <ErrorBox error={error} />}
      <div className="grid grid-cols-2 gap-3">
        <Select label="Version" value={version} onChange={setVersion} choices={choices} />
        <Select
          label="Compare with"
          value={baseline === version ? NO_BASELINE : baseline}
          onChange={setBaseline}
          choices={[
            { id: NO_BASELINE, label: 'Nothing' },
            ...choices.filter(({ id }) => id !== version),
            { id: OBSERVED, label: 'Recorded runs', description: 'Those that cases were taken from.' },
          ]}
        />
      </div>
      <TextField
        label="Runs of each case"
        description="Empty: as the suites say."
        inputMode="numeric"
        value={repeat}
        onChange={setRepeat}
        error={isRepeat ? undefined : 'Enter a whole number'}
      />
      {create.error && <ErrorBox error={create.error} />}
    </Dialog>
  );
}

/** Takes suites, or the folder of the agent, by drop or by choice, and lists what will be sent. */
function Suites({
  files,
  onAdd,
  onClear,
}: {
  readonly files: readonly SuiteFile[];
  readonly onAdd: (chosen: Promise<readonly ChosenFile[]>) => Promise<void>;
  readonly onClear: () => void;
}) {
  const choose = (chosen: FileList | null) => chosen && void onAdd((async () => filesOfInput(chosen))());
  return (
    <DropZone
      className="flex flex-col gap-2 rounded-lg border border-dashed border-edge p-3"
      onFiles={(transfer) => void onAdd(filesOfDrop(transfer))}
    >
      {files.length === 0 ? (
        <p className="text-soft">
          Drop suites (YAML or JSON) with the files that they name, or the folder of the agent.{' '}
          <OutsideLink href={`${API_URL}/docs/evals`}>How to write a suite</OutsideLink>
        </p>
      ) : (
        <ul aria-label="Files to send" className="flex flex-col gap-1">
          {files.map((file) => (
            <li key={file.name} className="flex min-w-0 items-center gap-2">
              <span className="min-w-0 grow">{escapeText(file.name)}</span>
              <span className="text-soft">{bytes(file.size)}</span>
            </li>
          ))}
        </ul>
      )}
      <div className="flex flex-wrap gap-2">
        <FileTrigger allowsMultiple onSelect={choose}>
          <Button>Choose files</Button>
        </FileTrigger>
        <FileTrigger acceptDirectory onSelect={choose}>
          <Button>Choose a folder</Button>
        </FileTrigger>
        {files.length > 0 && (
          <Button variant="quiet" onPress={onClear}>
            Clear
          </Button>
        )}
      </div>
    </DropZone>
  );
}
