import { isHidden } from '#core/manifest/folder/ignore-rules.ts';
import type { ChosenFile } from './chosen-folder.ts';

/** More is no agent: a folder of the whole disk was dropped. */
const MAX_FILES = 50_000;

const tooMany = () => new Error(`It holds more than ${MAX_FILES} files: drop the folder of one agent.`);

/** The files of a drop, those of folders with their paths. What is never packed is not looked into. Throws Error. */
export async function filesOfDrop(data: DataTransfer): Promise<ChosenFile[]> {
  // The items are gone after the first wait.
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
      // A browser gives a hundred at a time.
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

/** The files that an input has; a folder's with their paths. Throws Error. */
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
