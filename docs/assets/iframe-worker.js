// The search of the site runs in a Worker, which browsers refuse to pages that were opened from disk. There, and only
// there, it runs in a hidden frame. mkdocs-material would load such a script from another server; this one is ours.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        if (this.onmessage) this.onmessage(message);
        this.dispatchEvent(message);
      };
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          inside.document.body.append(script);
        });
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.frame = frame;
      this.loaded = load(url);
    }
    postMessage(data) {
      this.loaded.then(() => {
        const message = new MessageEvent("message", { data });
        if (this.frame.contentWindow.onmessage) this.frame.contentWindow.onmessage(message);
        this.frame.contentWindow.dispatchEvent(message);
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
