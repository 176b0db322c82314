import { unzipSync } from 'fflate';
import { type AgentFolder, type Folder, readAgentFolder } from '#core/manifest/folder/agent-folder.ts';
import { IgnoreRules, isHidden } from '#core/manifest/folder/ignore-rules.ts';

/** A selected or dropped file, with `/` as path separator. */
export interface ChosenFile {
  readonly path: string;
  readonly file: Blob;
}

/** Maximum decompressed size of a zip; the limit of `platform publish` plus a margin for ignored files. */
const MAX_EXPANDED_BYTES = 500 * 1024 * 1024;
const MAX_FILES = 50_000;

/**
 * Reads what a zip or the files of a folder would publish. Throws an Error whose message names the file and the fix.
 */
export async function readChosen(chosen: readonly ChosenFile[]): Promise<AgentFolder> {
  const [first] = chosen;
  const isZip = chosen.length === 1 && first!.path.toLowerCase().endsWith('.zip');
  const files = isZip ? await filesOfZip(first!) : chosen;
  return readAgentFolder(folderOf(files));
}

async function filesOfZip({ path, file }: ChosenFile): Promise<ChosenFile[]> {
  let size = 0;
  let count = 0;
  const names: string[] = [];
  const zip = new Uint8Array(await file.arrayBuffer());
  const expanded = unzip(path, zip, ({ name, originalSize }) => {
    const parts = name.split('/');
    if (parts.includes('..') || name.startsWith('/') || name.includes('\\')) {
      throw new Error(
        `${path} has a file ${JSON.stringify(name)}, whose path points outside of it. Create the archive again.`,
      );
    }
    // The files of git's rules are hidden ones that are read. macOS adds a folder of its own.
    if (name.endsWith('/') || parts[0] === '__MACOSX' || parts.some((part) => isHidden(part) && part !== '.gitignore'))
      return false;
    size += originalSize;
    if (++count > MAX_FILES || size > MAX_EXPANDED_BYTES) {
      throw new Error(`${path} expands to more than ${MAX_FILES} files or 500 MB: publish it with “platform publish”.`);
    }
    names.push(name);
    return true;
  });
  return names.map((name) => ({ path: name, file: new Blob([expanded[name] as Uint8Array<ArrayBuffer>]) }));
}

function unzip(path: string, zip: Uint8Array, filter: (file: { name: string; originalSize: number }) => boolean) {
  let own: unknown;
  try {
    return unzipSync(zip, {
      filter(file) {
        try {
          return filter(file);
        } catch (error) {
          own = error;
          throw error;
        }
      },
    });
  } catch (error) {
    throw own ?? new Error(`${path} is not a readable zip file: ${(error as Error).message}.`);
  }
}

/** Returns the folder of the manifest: the root, or the only top-level folder. */
function folderOf(chosen: readonly ChosenFile[]): Folder {
  const [top] = (chosen[0]?.path ?? '').split('/');
  const isWrapped = chosen.every(({ path }) => path.startsWith(`${top}/`));
  const cut = isWrapped ? top!.length + 1 : 0;
  const files = new Map(chosen.map(({ path, file }) => [path.slice(cut), file]));
  const folders = new Map<string, Map<string, boolean>>([['', new Map()]]);
  for (const path of files.keys()) {
    const names = path.split('/');
    for (const [index, name] of names.entries()) {
      const below = names.slice(0, index).join('/');
      const entries = folders.get(below) ?? new Map<string, boolean>();
      folders.set(below, entries.set(name, index < names.length - 1));
    }
  }
  return {
    nameOf: (path) => path ?? (isWrapped ? top! : 'The folder'),
    entries: async (path) => [...(folders.get(path) ?? [])].map(([name, isFolder]) => ({ name, isFolder })),
    sizeOf: async (path) => files.get(path)!.size,
    async read(path) {
      const file = files.get(path);
      return file && new Uint8Array(await file.arrayBuffer());
    },
    ignored: new IgnoreRules(),
  };
}
