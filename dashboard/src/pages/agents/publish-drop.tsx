import { useQueryClient } from '@tanstack/react-query';
import { FolderUp, Upload } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { bodyOfFolder } from '#core/manifest/publish-body.ts';
import { call } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { ChosenFile } from '../../publishing/chosen-folder.ts';
import { filesOfDrop, filesOfInput } from '../../publishing/dropped-files.ts';
import { readInWorker } from '../../publishing/read-in-worker.ts';
import { sendableBody, uploadBundle } from '../../publishing/send-file.ts';
import { Button } from '../../ui/button.tsx';
import { bytes, count } from '../../ui/data/numbers.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { DropZone } from '../../ui/drop-zone.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';

/**
 * Accepts a selected or dropped folder or zip, previews what it would publish, and publishes it. Its children are the
 * drop target.
 */
export function PublishDrop({ children }: { readonly children: (buttons: ReactNode) => ReactNode }) {
  const [chosen, setChosen] = useState<{ readonly files: Promise<readonly ChosenFile[]> }>();
  const folder = useRef<HTMLInputElement>(null);
  const zip = useRef<HTMLInputElement>(null);
  const take = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const { files } = currentTarget;
    if (files && files.length > 0) setChosen({ files: (async () => filesOfInput(files))() });
    // Allows the same folder to be selected again.
    setTimeout(() => {
      currentTarget.value = '';
    });
  };
  const buttons = (
    <>
      <Button icon={FolderUp} onPress={() => folder.current?.click()}>
        Publish a folder
      </Button>
      <Button icon={Upload} onPress={() => zip.current?.click()}>
        Publish a zip
      </Button>
    </>
  );
  return (
    <DropZone className="min-h-[60vh] rounded-lg" onFiles={(transfer) => setChosen({ files: filesOfDrop(transfer) })}>
      <input
        ref={folder}
        type="file"
        hidden
        aria-label="Folder to publish"
        {...({ webkitdirectory: '' } as object)}
        onChange={take}
      />
      <input ref={zip} type="file" hidden aria-label="Zip to publish" accept=".zip" onChange={take} />
      {children(buttons)}
      {chosen && <PublishDialog files={chosen.files} onClose={() => setChosen(undefined)} />}
    </DropZone>
  );
}

type Checked = Awaited<ReturnType<typeof check>>;

async function check(files: readonly ChosenFile[], workspaceId: string) {
  if (files.length === 0) throw new Error('The selection contains nothing to publish.');
  const read = await readInWorker(files);
  const name = typeof read.body.name === 'string' && /^.{1,50}$/.test(read.body.name) ? read.body.name : undefined;
  const [validation, next] = await Promise.all([
    sendableBody(bodyOfFolder(read), { workspaceId }).then((body) => call('validateAgent', { body }, { workspaceId })),
    name === undefined ? undefined : call('previewAgent', { query: { name } }, { workspaceId }),
  ]);
  return { read, validation, next };
}

function PublishDialog({
  files,
  onClose,
}: {
  readonly files: Promise<readonly ChosenFile[]>;
  readonly onClose: () => void;
}) {
  const { id: workspaceId, slug, role } = useWorkspace();
  const client = useQueryClient();
  const [state, setState] = useState<{
    readonly checked?: Checked;
    readonly error?: unknown;
    readonly isPublishing?: boolean;
  }>({});
  const [made, setMade] = useState<{ readonly key: string; readonly name: string }>();
  useEffect(() => {
    let isGone = false;
    files
      .then((all) => check(all, workspaceId))
      .then(
        (checked) => isGone || setState({ checked }),
        (error) => isGone || setState({ error }),
      );
    return () => {
      isGone = true;
    };
  }, [files, workspaceId]);
  const { checked, error, isPublishing = false } = state;
  const publish = async ({ read }: Checked) => {
    setState({ checked, isPublishing: true });
    try {
      const { bundle } = read;
      const sent = await sendableBody(bodyOfFolder(read), { workspaceId });
      const { agent, service_key } = await call('createAgent', { body: sent }, { workspaceId });
      const upload = bundle && (await uploadBundle(agent.id, bundle as Uint8Array<ArrayBuffer>, { workspaceId }));
      await client.invalidateQueries({ queryKey: keyOf('listAgents') });
      const isBuilding = upload?.environment_status === 'building';
      if (upload?.environment_status === 'failed') {
        toast({ tone: 'bad', text: `${agent.name} ${agent.version}: ${upload.environment_error?.split('\n')[0]}` });
      } else {
        toast({
          tone: 'good',
          text: `${agent.name} ${agent.version} was published${isBuilding ? '; its dependencies are being installed' : ''}.`,
        });
      }
      if (service_key === undefined) onClose();
      else setMade({ key: service_key, name: agent.name });
    } catch (problem) {
      setState({ checked, error: problem });
    }
  };
  if (made) {
    return (
      <ShownOnce title={`Service key of ${made.name}`} text={made.key} onClose={onClose}>
        The agent uses this key to call its dependencies from anywhere.
      </ShownOnce>
    );
  }
  return (
    <Dialog
      title="Publish an agent"
      size="large"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>{checked === undefined ? 'Close' : 'Cancel'}</Button>
          {checked && (
            <Button
              variant="primary"
              onPress={() => void publish(checked)}
              isPending={isPublishing}
              isDisabled={!checked.validation.valid || role !== 'owner'}
            >
              Publish {checked.next?.next_version}
            </Button>
          )}
        </>
      }
    >
      {error !== undefined && <ErrorBox error={error} />}
      {checked === undefined && error === undefined && <Loading />}
      {checked && <Preview checked={checked} slug={slug} />}
      {checked && role !== 'owner' && <p className="text-warn">Only owners of {slug} can publish.</p>}
    </Dialog>
  );
}

function Preview({ checked: { read, validation, next }, slug }: { readonly checked: Checked; readonly slug: string }) {
  const { body, bundle, files } = read;
  const { errors, warnings } = validation;
  const name = typeof body.name === 'string' ? body.name : '';
  const old = next?.existing_versions.at(-1);
  return (
    <>
      {errors.length > 0 && (
        <div role="alert" className="rounded-lg border border-line bg-bad-ground p-3">
          <p className="font-medium">Fix these problems before publishing:</p>
          <ul className="list-inside list-disc">
            {errors.map((each) => (
              <li key={each} className="break-words">
                {escapeText(each)}
              </li>
            ))}
          </ul>
        </div>
      )}
      {warnings.length > 0 && (
        <div className="rounded-lg border border-line bg-warn-ground p-3">
          <ul className="list-inside list-disc">
            {warnings.map((each) => (
              <li key={each} className="break-words">
                {escapeText(each)}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Facts
        facts={[
          ['Agent', <span key="name" className="break-all">{`${slug}/${escapeText(name.slice(0, 200))}`}</span>],
          [
            'Version',
            <span key="version">
              {next?.next_version}
              {old && (
                <>
                  , after{' '}
                  <Link to="/$workspace/agents/$name" params={{ workspace: slug, name }} search={{ v: old }}>
                    {old}
                  </Link>
                </>
              )}
            </span>,
          ],
          ['Type', escapeText(String(body.type ?? 'prompt').slice(0, 50))],
          [
            'Description',
            <span key="about" className="break-words">
              {escapeText(String(body.description ?? '').slice(0, 500))}
            </span>,
          ],
          ...(bundle ? [['Code', `${bytes(bundle.length)} as a zip`] as const] : []),
        ]}
      />
      {files && (
        <details open={files.size <= 10}>
          <summary className="font-medium">{count(files.size)} files of code</summary>
          <ul className="mt-1 max-h-60 overflow-auto rounded-md border border-line bg-panel p-2 font-mono text-xs">
            {[...files].slice(0, MAX_SHOWN).map(([path, content]) => (
              <li key={path} className="flex gap-2">
                <span className="grow break-all">{escapeText(path)}</span>
                <span className="shrink-0 text-soft">{bytes(content.length)}</span>
              </li>
            ))}
            {files.size > MAX_SHOWN && <li className="text-soft">{count(files.size - MAX_SHOWN)} more</li>}
          </ul>
        </details>
      )}
    </>
  );
}
const MAX_SHOWN = 500;
