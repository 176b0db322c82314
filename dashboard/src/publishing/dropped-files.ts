import { isHidden } from '#core/manifest/folder/ignore-rules.ts';
import type { ChosenFile } from './chosen-folder.ts';

/** Maximum number of files; guards against a drop of a whole disk. */
const MAX_FILES = 50_000;

const tooMany = () => new Error(`It contains more than ${MAX_FILES} files. Drop the folder of one agent.`);

/**
 * Reads dropped files, and those of dropped folders with their paths. Skips files that are never packed. Throws Error.
 */
export async function filesOfDrop(data: DataTransfer): Promise<ChosenFile[]> {
  // The items are only available before the first await.
  const items = [...data.items].filter(({ kind }) => kind === 'file');
  const dropped = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found: ChosenFile[] = [];
  const add = async (entry: FileSystemEntry, path: string): Promise<void> => {
    if (found.length > MAX_FILES) throw tooMany();
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ path, file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      // Browsers return at most 100 entries at a time.
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const each of some) {
        if (!isHidden(each.name) || each.name === '.gitignore') await add(each, `${path}/${each.name}`);
      }
    }
  };
  for (const { entry, file } of dropped) {
    if (entry) await add(entry, entry.name);
    else if (file) found.push({ path: file.name, file });
  }
  return found;
}

/** Returns the files of an input element, with their paths in a folder. Throws Error. */
export function filesOfInput(files: FileList): ChosenFile[] {
  if (files.length > MAX_FILES * 4) throw tooMany();
  return [...files]
    .map((file) => ({ path: file.webkitRelativePath || file.name, file }))
    .filter(({ path }) =>
      path
        .split('/')
        .slice(1)
        .every((name) => !isHidden(name) || name === '.gitignore'),
    );
}
