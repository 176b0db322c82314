declare module 'virtual:operations' {
  const operations: Readonly<Record<string, readonly [method: string, path: string]>>;
  export default operations;
}

declare module 'virtual:gallery' {
  const gallery: readonly import('../../client/gallery.ts').GalleryEntry[];
  export default gallery;
}

declare module 'virtual:gallery-files' {
  /** Name of an example -> its files by path in its folder. */
  const files: Readonly<Record<string, import('../../client/gallery.ts').FilesByPath>>;
  export default files;
}
