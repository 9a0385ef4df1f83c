/// The style sheet and the script of the page, which loads nothing from other places.
extension StatusPage {
    static let style = """
        :root{--bg:#f5f6f8;--card:#fff;--ink:#171b21;--soft:#657081;--line:#e4e7ec;--track:#eef0f4;--good:#14804a;--bad:#c8322b;\
        --warn:#9a5b00;--accent:#2563eb;--c0:#2563eb;--c1:#7c3aed;--c2:#0d9488;--c3:#d97706;--c4:#dc2626;--c5:#db2777;\
        --c6:#65a30d;--c7:#64748b}
        @media(prefers-color-scheme:dark){:root{--bg:#0f1216;--card:#171b21;--ink:#e7eaef;--soft:#949fae;--line:#272d36;\
        --track:#20262e;--good:#4ac78b;--bad:#ff7a70;--warn:#f0b040;--accent:#7aa7ff;--c0:#7aa7ff;--c1:#b794f6;--c2:#4fd1c5;\
        --c3:#f6ad55;--c4:#fc8181;--c5:#f687b3;--c6:#a3d94b;--c7:#a0aec0}}
        *{box-sizing:border-box}
        body{margin:0;padding:24px 20px 32px;background:var(--bg);color:var(--ink);\
        font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;-webkit-text-size-adjust:100%}
        #page{max-width:1180px;margin:auto;transition:opacity .3s}.stale #page{opacity:.45}
        header{display:flex;align-items:center;gap:10px;margin-bottom:16px;flex-wrap:wrap}
        h1{font-size:20px;margin:0 4px 0 0;letter-spacing:-.015em}small{color:var(--soft);font-weight:400;font-size:13px}
        h2{font-size:14px;margin:0 0 14px;font-weight:600;overflow-wrap:anywhere;display:flex;align-items:center;gap:8px;\
        flex-wrap:wrap}h2 em{font-style:normal;font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-weight:500}\
        h3{font-size:13px;margin:14px 0 8px;overflow-wrap:anywhere}
        .when{margin-left:auto;color:var(--soft);font-variant-numeric:tabular-nums}
        .pill,.chip{border-radius:99px;font-weight:600;white-space:nowrap;border:1px solid currentColor}
        .pill{padding:2px 11px;font-size:13px}.chip{padding:0 8px;font-size:12px;display:inline-block}
        .good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.soft{color:var(--soft)}
        .problems{margin:0 0 16px;padding:12px 16px;list-style:none;border:1px solid var(--line);\
        border-left:4px solid var(--bad);border-radius:10px;color:var(--bad);background:var(--card);overflow-wrap:anywhere}
        .problems li.warn{color:var(--warn)}
        section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin-bottom:16px}
        .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:1px;background:var(--line);\
        border:1px solid var(--line);border-radius:10px;overflow:hidden}
        .tile{background:var(--card);padding:10px 14px;display:flex;flex-direction:column;min-width:0}
        .tile span{font-size:12px;color:var(--soft)}.tile b{font-size:21px;line-height:1.3;font-weight:600;\
        font-variant-numeric:tabular-nums;letter-spacing:-.02em;white-space:nowrap}.tile i{font-style:normal;font-size:12px;\
        color:var(--soft)}.tile.bad b{color:var(--bad)}.tile.accent b{color:var(--accent)}
        .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr));gap:18px 24px;margin:18px 0 4px}
        .charts.two{margin-top:0;margin-bottom:18px;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr))}
        .chart{margin:0;min-width:0}figcaption{font-size:12px;color:var(--soft);display:flex;justify-content:space-between;\
        margin-bottom:4px}figcaption b{color:var(--ink);font-variant-numeric:tabular-nums}
        .plot{position:relative}.plot svg{display:block;width:100%;height:84px;background:var(--track);border-radius:6px}
        .top{position:absolute;right:6px;top:2px;font-size:11px;color:var(--soft);font-variant-numeric:tabular-nums}
        .tip{position:absolute;left:6px;top:2px;font-size:11px;background:var(--card);border:1px solid var(--line);\
        border-radius:4px;padding:0 5px;font-variant-numeric:tabular-nums;pointer-events:none}
        .axis{display:flex;justify-content:space-between;font-size:11px;color:var(--soft);margin-top:2px}
        .grid{stroke:var(--line);fill:none;vector-effect:non-scaling-stroke}
        .line{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke;stroke-linejoin:round}.area{opacity:.14;stroke:none}
        .legend{list-style:none;margin:4px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px}\
        .legend li{color:var(--soft)}.legend li::before{content:"";display:inline-block;width:8px;height:8px;border-radius:2px;\
        margin-right:5px;background:currentColor}
        .line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}\
        .area.c0{fill:var(--c0)}.area.c1{fill:var(--c1)}.area.c2{fill:var(--c2)}.area.c3{fill:var(--c3)}\
        .stack.c2{fill:var(--c2)}.stack.c3{fill:var(--c3)}.stack.c4{fill:var(--c4)}.stack.c5{fill:var(--c5)}\
        .stack.c6{fill:var(--c6)}.stack.c7{fill:var(--c7)}.legend .c0::before{color:var(--c0)}\
        .legend .c2::before{color:var(--c2)}\
        .legend .c3::before{color:var(--c3)}.legend .c4::before{color:var(--c4)}.legend .c5::before{color:var(--c5)}\
        .legend .c6::before{color:var(--c6)}.legend .c7::before{color:var(--c7)}
        dl{display:flex;flex-wrap:wrap;gap:4px 20px;margin:14px 0 0;font-size:12px}dl div{display:flex;gap:6px;min-width:0}\
        dt{color:var(--soft)}dd{margin:0;font-variant-numeric:tabular-nums;min-width:0}
        .wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
        th{text-align:left;font-weight:500;font-size:12px;color:var(--soft);padding:0 14px 6px 0;white-space:nowrap}
        td{padding:7px 14px 7px 0;border-top:1px solid var(--line);vertical-align:top;font-variant-numeric:tabular-nums}
        td .why{display:block;font-size:12px;color:var(--soft);min-width:180px}td b{font-weight:600;overflow-wrap:anywhere}
        .cut{max-width:260px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        meter{width:56px;height:8px;vertical-align:middle}
        .letters{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.6fr);gap:8px 32px;align-items:start}
        .reasons td{overflow-wrap:anywhere}.reasons caption{caption-side:bottom;text-align:left;color:var(--soft);font-size:12px}\
        .reasons .n{text-align:right;width:1%;white-space:nowrap;padding-left:8px}.at{white-space:nowrap}\
        .bar{width:34%}.bar svg{width:100%;height:8px;display:block;margin-top:6px}\
        .bar rect{fill:var(--bad)}
        code{font:12px/1.5 ui-monospace,SFMono-Regular,"DejaVu Sans Mono",Menlo,monospace}
        .command{display:inline-block;max-width:100%;padding:1px 7px;border-radius:5px;background:var(--track);cursor:copy;\
        user-select:all;overflow-wrap:anywhere}.command.copied{outline:2px solid var(--good)}
        details{margin-top:14px}summary{cursor:pointer;color:var(--accent);font-size:13px;width:max-content}
        .commands{display:grid;gap:6px;margin-top:10px}.commands div{display:grid;\
        grid-template-columns:minmax(150px,220px) minmax(0,1fr);gap:2px 12px}
        .pauses{list-style:none;margin:14px 0 0;padding:10px 14px;border:1px solid var(--warn);border-radius:8px}\
        .pauses li{display:flex;flex-wrap:wrap;gap:4px 14px;justify-content:space-between;overflow-wrap:anywhere}
        footer{color:var(--soft);font-size:12px;padding:2px}a{color:var(--accent);text-decoration:none}\
        a:hover{text-decoration:underline}
        @media(max-width:720px){body{padding:14px 10px 24px;font-size:14px}section{padding:14px;border-radius:10px}\
        .when{margin-left:0;width:100%}.tiles{grid-template-columns:1fr 1fr}\
        .letters,.commands div{grid-template-columns:minmax(0,1fr)}\
        .stacked thead{display:none}.stacked,.stacked tbody,.stacked tr,.stacked td{display:block;width:100%}\
        .stacked tr{border-top:1px solid var(--line);padding:8px 0}.stacked td{display:flex;flex-wrap:wrap;gap:2px 10px;border:0;\
        padding:2px 0;max-width:100%;overflow-wrap:anywhere;white-space:normal}.stacked td::before{content:attr(data-label);\
        color:var(--soft);flex:0 0 84px;font-size:12px}.stacked .why{flex-basis:100%;min-width:0}}
        """

    /// Replaces the page every two seconds by its new state, shows values under the pointer, and copies commands.
    static let script = """
        const unit={n:v=>Math.round(v).toLocaleString('en'),r:v=>v<10?v.toFixed(1):Math.round(v).toLocaleString('en'),\
        s:v=>v<1?(v*1e3).toFixed(v<.01?1:0)+' ms':v<60?v.toFixed(1)+' s':Math.floor(v/60)+' min '+Math.round(v%60)+' s'};
        function valueAt(d,x){let last=null;for(const run of d.split('M').slice(1)){\
        const p=run.split('L').map(t=>t.split(' ').map(Number));\
        for(let i=0;i<p.length;i++){if(p[i][0]>=x&&(i?p[i-1][0]<=x:p[i][0]-x<1)){const a=p[i-1]??p[i],b=p[i];\
        const f=b[0]>a[0]?(x-a[0])/(b[0]-a[0]):1;last=a[1]+(b[1]-a[1])*f}}}return last}
        document.addEventListener('pointermove',e=>{document.querySelectorAll('.tip').forEach(t=>t.hidden=true);\
        const svg=e.target.closest?.('.plot svg');if(!svg)return;const box=svg.getBoundingClientRect(),\
        chart=svg.closest('.chart'),x=Math.round((e.clientX-box.left)/box.width*360),show=unit[chart.dataset.unit];
        const parts=[...svg.querySelectorAll('.line')].map(l=>{const y=valueAt(l.getAttribute('d'),x);\
        return y===null?null:l.dataset.name+' '+show((72-y)/70*chart.dataset.top)}).filter(Boolean);
        if(!parts.length)return;const tip=chart.querySelector('.tip');\
        tip.textContent='−'+Math.round((360-x)/6)+' min: '+parts.join(', ');tip.hidden=false});
        document.addEventListener('click',e=>{const c=e.target.closest?.('.command');if(!c)return;\
        navigator.clipboard?.writeText(c.textContent).then(()=>{c.classList.add('copied');\
        setTimeout(()=>c.classList.remove('copied'),900)}).catch(()=>{})});
        const open=()=>[...document.querySelectorAll('details[open]')].map(d=>d.dataset.id);
        async function turn(){try{
        const response=await fetch('/',{cache:'no-store'}),\
        next=new DOMParser().parseFromString(await response.text(),'text/html').getElementById('page');
        if(!document.getSelection().toString()){const ids=open();\
        next.querySelectorAll('details').forEach(d=>{if(ids.includes(d.dataset.id))d.open=true});\
        document.getElementById('page').replaceWith(next)}document.body.className='';
        }catch{document.body.className='stale'}setTimeout(turn,2000)}
        setTimeout(turn,2000);
        """
}
