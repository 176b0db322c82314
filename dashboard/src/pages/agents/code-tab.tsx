import { getRouteApi } from '@tanstack/react-router';
import { ChevronDown, ChevronRight, Download, File as FileIcon } from 'lucide-react';
import { lazy, Suspense, useMemo, useState } from 'react';
import { Button as AriaButton } from 'react-aria-components/Button';
import { manifestOf } from '#core/manifest/publish-body.ts';
import { Button } from '../../ui/button.tsx';
import { classes } from '../../ui/classes.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { bytes } from '../../ui/data/numbers.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { download } from '../../ui/text/viewer.tsx';
import { expand, filesOf, textOf, useBundle } from './bundle-zip.ts';
import { bytesOfSkillFile, type skillFilesOf, useSkillFiles } from './skill-files.ts';
import type { Version } from './version.ts';

const Editor = lazy(() => import('../../ui/text/editor.tsx'));
const route = getRouteApi('/signed-in/$workspace/agents/$name');

/** Maximum size of a file shown inline; larger files can be downloaded. */
const MAX_SHOWN_BYTES = 512 * 1024;
/** Number of files of a folder listed at once. */
const STEP = 200;

/** A file that can be viewed; its content is loaded on demand. */
interface SourceFile {
  readonly path: string;
  readonly size: number;
  readonly read: () => Uint8Array;
}

const textFile = (path: string, text: string): SourceFile => {
  const content = new TextEncoder().encode(text);
  return { path, size: content.length, read: () => content };
};

const save = (name: string, content: Uint8Array): void =>
  download(name, new Blob([content as Uint8Array<ArrayBuffer>], { type: 'application/octet-stream' }));

/** Returns the files that the version's record was published from. */
function textsOf(agent: Version, skillFiles: ReturnType<typeof skillFilesOf>): SourceFile[] {
  const { type, prompt, input_schema, output_schema, name, description } = agent;
  if (type === 'skill') {
    const head = `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n`;
    return [
      textFile('SKILL.md', `${head}${prompt ?? ''}\n`),
      ...skillFiles.map((file) => ({ path: file.path, size: file.size, read: () => bytesOfSkillFile(file) })),
    ];
  }
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  const schemas = { ...(input_schema && { input: input_schema }), ...(output_schema && { output: output_schema }) };
  return [
    textFile('agent.json', json(manifestOf(agent))),
    ...(prompt ? [textFile('prompt.md', prompt)] : []),
    ...(Object.keys(schemas).length > 0 ? [textFile('schema.json', json(schemas))] : []),
  ];
}

/** Source files of a version, always shown as plain text. */
export default function CodeTab({ agent }: { readonly agent: Version }) {
  const { file: wanted } = route.useSearch();
  const bundle = useBundle(agent);
  const skillFiles = useSkillFiles(agent);
  const zip = bundle.data;
  const { files, problem } = useMemo(() => {
    const own = textsOf(agent, skillFiles.data ?? []);
    if (!zip) return { files: own };
    try {
      const packed = filesOf(zip).map(({ path, size }) => ({ path, size, read: () => expand(zip, path)! }));
      // A schema.json in the code replaces the published schema only if they are equal; otherwise both are shown.
      return { files: [...own.filter(({ path }) => !packed.some((each) => each.path === path)), ...packed] };
    } catch (problem) {
      return { files: own, problem };
    }
  }, [agent, zip, skillFiles.data]);
  const shown = files.find(({ path }) => path === wanted) ?? files.find(({ path }) => isMain(path, agent)) ?? files[0]!;
  return (
    <div className="grid items-start gap-4 md:grid-cols-[16rem_minmax(0,1fr)]">
      <nav
        aria-label="Files"
        className="max-h-[36rem] min-w-0 overflow-auto rounded-lg border border-line bg-raised p-1"
      >
        {[bundle, skillFiles].map(
          ({ error, refetch }, index) =>
            error && (
              <ErrorBox
                key={index === 0 ? 'code' : 'files'}
                error={error}
                title={index === 0 ? 'The code could not be loaded' : 'The files of the skill could not be loaded'}
                onRetry={() => void refetch()}
              />
            ),
        )}
        {problem !== undefined && <ErrorBox error={problem} title="The bundle could not be read" />}
        {(bundle.isPending || skillFiles.isPending) && <Loading />}
        <Folder node={treeOf(files)} depth={0} current={shown.path} />
        {zip && (
          <Button variant="quiet" icon={Download} onPress={() => save(`${agent.name}-${agent.version}.zip`, zip)}>
            Download all ({bytes(zip.length)})
          </Button>
        )}
      </nav>
      <FileView key={shown.path} file={shown} />
    </div>
  );
}

const isMain = (path: string, { entrypoint, type }: Version): boolean =>
  path === (entrypoint ?? (type === 'skill' ? 'SKILL.md' : 'prompt.md'));

interface Tree {
  readonly folders: Map<string, Tree>;
  readonly files: SourceFile[];
}

function treeOf(files: readonly SourceFile[]): Tree {
  const root: Tree = { folders: new Map(), files: [] };
  for (const file of files) {
    let at = root;
    for (const name of file.path.split('/').slice(0, -1)) {
      const next = at.folders.get(name) ?? { folders: new Map(), files: [] };
      at.folders.set(name, next);
      at = next;
    }
    at.files.push(file);
  }
  return root;
}

function Folder({ node, depth, current }: { readonly node: Tree; readonly depth: number; readonly current: string }) {
  const [max, setMax] = useState(STEP);
  return (
    <ul className={classes(depth > 0 && 'ml-3 border-l border-line pl-1')}>
      {[...node.folders].slice(0, max).map(([name, folder]) => (
        <OpenFolder key={name} name={name} node={folder} depth={depth} current={current} />
      ))}
      {node.files.slice(0, max).map(({ path, size }) => (
        <li key={path}>
          <Link
            to="."
            search={(now: object) => ({ ...now, file: path })}
            aria-current={path === current ? 'true' : undefined}
            className={classes(
              'flex items-start gap-1.5 rounded px-1.5 py-0.5 break-all text-text',
              path === current && 'bg-selected',
            )}
          >
            <FileIcon size={13} aria-hidden className="mt-1 shrink-0 text-soft" />
            <span className="grow">{escapeText(path.split('/').at(-1)!)}</span>
            <span className="shrink-0 text-xs text-soft">{bytes(size)}</span>
          </Link>
        </li>
      ))}
      {Math.max(node.files.length, node.folders.size) > max && (
        <li>
          <Button variant="quiet" onPress={() => setMax(max + STEP * 5)}>
            Show more
          </Button>
        </li>
      )}
    </ul>
  );
}

function OpenFolder({
  name,
  node,
  depth,
  current,
}: {
  readonly name: string;
  readonly node: Tree;
  readonly depth: number;
  readonly current: string;
}) {
  const [isOpen, setOpen] = useState(depth < 1);
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <li>
      <AriaButton
        aria-expanded={isOpen}
        onPress={() => setOpen(!isOpen)}
        className="flex w-full items-start gap-1 rounded px-1 py-0.5 text-left break-all hover:bg-hover"
      >
        <Icon size={13} aria-hidden className="mt-1 shrink-0 text-soft" />
        {escapeText(name)}
      </AriaButton>
      {isOpen && <Folder node={node} depth={depth + 1} current={current} />}
    </li>
  );
}

function FileView({ file: { path, size, read } }: { readonly file: SourceFile }) {
  const isLarge = size > MAX_SHOWN_BYTES;
  const [content] = useState(() => {
    if (isLarge) return {};
    try {
      return { text: textOf(read()) };
    } catch (error) {
      return { error };
    }
  });
  const { text, error } = content;
  return (
    <Section
      title={escapeText(path)}
      description={bytes(size)}
      actions={
        <>
          {text !== undefined && <CopyButton text={text} />}
          <Button icon={Download} onPress={() => save(path.split('/').at(-1)!, read())}>
            Download
          </Button>
        </>
      }
    >
      {isLarge && (
        <p className="text-soft">
          Files larger than {bytes(MAX_SHOWN_BYTES)} are not shown. Download the file to read it.
        </p>
      )}
      {error !== undefined && <ErrorBox error={error} title="This file cannot be expanded" />}
      {!isLarge && error === undefined && text === undefined && (
        <p className="text-soft">This file is not UTF-8 text.</p>
      )}
      {text !== undefined && (
        <Suspense fallback={<Loading />}>
          <Editor
            label={`Content of ${path}`}
            value={escapeText(text)}
            language={path.endsWith('.json') ? 'json' : 'text'}
          />
        </Suspense>
      )}
    </Section>
  );
}
